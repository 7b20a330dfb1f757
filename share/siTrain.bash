# bash completion of siTrain: source it, or put it into /etc/bash_completion.d/
_siTrain() {
    local IFS=$'\n' n=$COMP_CWORD word="${COMP_WORDS[COMP_CWORD]}" option= offered
    if [ "$word" = = ]; then # bash parts --NAME=WORD at =
        n=$((n - 1)) word=
    elif [ "${COMP_WORDS[n-1]}" = = ]; then
        n=$((n - 2))
    fi
    [ $n = $COMP_CWORD ] || option=${COMP_WORDS[n]}=
    offered=$(command "${COMP_WORDS[0]/#\~/$HOME}" --completion bash \
        "${COMP_WORDS[@]:1:n-1}" "$option$word" 2>/dev/null | cut -f 1)
    offered=${offered//"$option"/}
    if [ "$offered" = / ]; then
        COMPREPLY=($(compgen -f -- "$word"))
    else
        COMPREPLY=($(compgen -W "$offered" -- "$word"))
    fi
}
complete -o filenames -F _siTrain siTrain
