#compdef siTrain
# zsh completion of siTrain: as _siTrain into a folder of $fpath
_siTrain() {
    local -a offered
    offered=(${(f)"$(command ${~words[1]} --completion zsh "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if [ "$offered" = / ]; then
        _files
    else
        offered=("${(@)offered//:/\\:}")
        offered=("${(@)offered/$'\t'/:}")
        _describe siTrain offered
    fi
}
if [ "$funcstack[1]" = _siTrain ]; then
    _siTrain "$@"
else
    compdef _siTrain siTrain
fi
