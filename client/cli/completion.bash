# bash completion for tally: `tally --complete` prints the completions.
#
# Bash splits words at '=' and ':', and completes only the last piece. This function joins the pieces, and
# removes the joined prefix from the completions. Readline completes the names of files, because it
# handles quotes.
_tally() {
    local line=${COMP_LINE:0:COMP_POINT} head='' words piece i
    local -a whole=()
    COMPREPLY=()
    for piece in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
        if [[ ${#whole[@]} -eq 0 || $line == [[:blank:]]* ]]; then
            line=${line#"${line%%[![:blank:]]*}"}
            whole+=('')
        fi
        piece=${piece:0:${#line}}
        line=${line#"$piece"}
        head=${whole[${#whole[@]}-1]}
        whole[${#whole[@]}-1]+=$piece
    done
    [[ $piece != [=:]* ]] || head=${whole[${#whole[@]}-1]}
    words=$("${whole[0]/#\~\//$HOME/}" --complete "${whole[@]:1}" 2>/dev/null | cut -f 1)
    if [[ $words == '<file>' ]]; then
        compopt -o default
        return
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "${whole[${#whole[@]}-1]}")
    for i in "${!COMPREPLY[@]}"; do
        COMPREPLY[i]=${COMPREPLY[i]#"$head"}
    done
}
complete -F _tally tally
