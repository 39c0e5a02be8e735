# fish completion for tally: `tally --complete` prints the completions.
function __tally_complete
    set -l words (commandline -opc)
    set -l program (string replace -r -- '^~/' "$HOME/" $words[1])
    command -q $program; or return
    set -l current (commandline -ct)
    set -l offers ($program --complete $words[2..] "$current" 2>/dev/null)
    if test "$offers" = '<file>'
        set -l head (string match -r -- '^(?:--[^=]*=)?' "$current")
        set -l paths (__fish_complete_path (string sub -s (math 1 + (string length -- "$head")) -- "$current"))
        printf '%s\n' $head$paths
    else
        string match -- "$current*" $offers # fish would match descriptions, too
    end
end
complete -c tally -f -a '(__tally_complete)'
