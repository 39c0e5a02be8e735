#compdef tally
# `tally --complete` prints the completions.
_tally() {
    local -a offers
    offers=("${(@f)$(${~words[1]} --complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ $offers == '<file>' ]]; then
        compset -P '--*='
        _files
        return
    fi
    offers=("${(@)offers//:/\\:}")
    offers=("${(@)offers/$'\t'/:}")
    _describe tally offers
}
if [ "$funcstack[1]" = _tally ]; then _tally "$@"; else compdef _tally tally; fi
