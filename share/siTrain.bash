# bash completion of siTrain: source it, or put it into /etc/bash_completion.d/
_siTrain() {
    local IFS=$'\n' word="${COMP_WORDS[COMP_CWORD]}" offered
    offered=$(command "${COMP_WORDS[0]/#\~/$HOME}" --completion bash \
        "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f 1)
    if [ "$offered" = / ]; then
        COMPREPLY=($(compgen -f -- "$word"))
    else
        COMPREPLY=($(compgen -W "$offered" -- "$word"))
    fi
}
complete -o filenames -F _siTrain siTrain
