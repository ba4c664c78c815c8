#include "deploy/cli/reference/shell_scripts.h"

namespace espalier::cli {

std::string_view BashScript() {
  return R"bash(# Completion of espalier for bash; written by `espalier reference bash`.
_espalier() {
  local -a words=() lines=()
  local i piece last="" cut

  # Bash cuts words at ':' and '=', which names and options have in them.
  for ((i = 1; i <= COMP_CWORD; i++)); do
    piece=${COMP_WORDS[i]}
    if ((${#words[@]} > 0)) && [[ $piece == [:=]* || $last == *[:=] ]]; then
      words[-1]+=$piece
    else
      words+=("$piece")
    fi
    last=$piece
  done
  cut=${words[-1]%"${words[-1]##*[:=]}"}

  COMPREPLY=()
  mapfile -t lines < <(espalier complete -- "${words[@]}" 2>/dev/null)
  case ${lines[0]-} in
    :file) compopt -o default 2>/dev/null ;;
    :folder) compopt -o dirnames 2>/dev/null ;;
    *)
      for piece in "${lines[@]}"; do
        piece=${piece%%$'\t'*}
        COMPREPLY+=("${piece#"$cut"}")
      done
      ;;
  esac
}
complete -F _espalier espalier
)bash";
}

std::string_view ZshScript() {
  return R"zsh(#compdef espalier
# Completion of espalier for zsh; written by `espalier reference zsh`.
_espalier() {
  local -a lines names shown
  local line
  lines=("${(@f)$(espalier complete -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
  case ${lines[1]} in
    '') return 1 ;;
    :file) compset -P '--*='; _files ;;
    :folder) compset -P '--*='; _files -/ ;;
    *)
      for line in "${lines[@]}"; do
        names+=("${line%%$'\t'*}")
        shown+=("${line/$'\t'/  -- }")
      done
      compadd -l -d shown -a names
      ;;
  esac
}
if [[ $funcstack[1] == _espalier ]]; then
  _espalier "$@"
else
  compdef _espalier espalier
fi
)zsh";
}

std::string_view FishScript() {
  return R"fish(# Completion of espalier for fish; written by `espalier reference fish`.
function __espalier_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l lines (espalier complete -- $words[2..-1] 2>/dev/null)
    switch "$lines[1]"
        case ''
            return
        case :file
            __fish_complete_path (commandline -ct)
        case :folder
            __fish_complete_directories (commandline -ct) ''
        case '*'
            printf '%s\n' $lines
    end
end
complete -c espalier -f -a '(__espalier_complete)'
)fish";
}

}  // namespace espalier::cli
