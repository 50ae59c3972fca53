// pawl completion: what a shell needs to ask pawl itself what can stand where.
#include <fmt/format.h>

#include "cli/commands.h"

namespace pawl {
namespace {

constexpr std::string_view bash_script = R"bash(# bash completion for pawl: source <(pawl completion bash)
_pawl() {
  local current=${COMP_WORDS[COMP_CWORD]} line
  COMPREPLY=()
  [ "$current" != "=" ] || current=
  while IFS= read -r line; do
    case $line in
      :files)
        while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$current")
        compopt -o filenames 2>/dev/null ;;
      :folders)
        while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -d -- "$current")
        compopt -o filenames 2>/dev/null ;;
      *) COMPREPLY+=("${line%%$'\t'*}") ;;
    esac
  done < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _pawl pawl
)bash";

constexpr std::string_view zsh_script = R"zsh(#compdef pawl
# zsh completion for pawl: pawl completion zsh > a folder of $fpath/_pawl
_pawl() {
  local line candidate
  local -a candidates described
  for line in "${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    case $line in
      '') ;;
      :files) _files ;;
      :folders) _files -/ ;;
      *)
        candidate=${line%%$'\t'*}
        candidates+=("$candidate")
        described+=("$candidate  ${line#*$'\t'}")
        ;;
    esac
  done
  (( ${#candidates} == 0 )) || compadd -l -d described -a candidates
}
if [ "$funcstack[1]" = _pawl ]; then _pawl "$@"; else compdef _pawl pawl; fi
)zsh";

constexpr std::string_view fish_script =
    R"fish(# fish completion for pawl: pawl completion fish > ~/.config/fish/completions/pawl.fish
function __pawl_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in ($words[1] __complete $words[2..-1] 2>/dev/null)
        switch $line
            case :files
                __fish_complete_path (commandline -ct)
            case :folders
                __fish_complete_directories (commandline -ct)
            case '*'
                printf '%s\n' $line
        end
    end
end
complete -c pawl -f -a '(__pawl_complete)'
)fish";

}  // namespace

ExitCode print_completion(const CompletionOptions& options) {
  switch (options.shell) {
    case Shell::bash:
      fmt::print("{}", bash_script);
      break;
    case Shell::zsh:
      fmt::print("{}", zsh_script);
      break;
    case Shell::fish:
      fmt::print("{}", fish_script);
      break;
  }
  return exit_success;
}

}  // namespace pawl
