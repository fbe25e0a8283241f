"""Print the completion of this command for a shell: bash, zsh or fish."""

from __future__ import annotations

from argparse import SUPPRESS, Action, ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from shlex import quote


def add_arguments(parser: ArgumentParser) -> None:
    """``bash``."""
    parser.epilog = (
        'bash: add  eval "$(attnmem completion bash)"  to ~/.bashrc. zsh: the same with zsh, in'
        " ~/.zshrc, after compinit. fish: attnmem completion fish >"
        " ~/.config/fish/completions/attnmem.fish."
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def execute(arguments: Namespace) -> int:
    """Prints the script."""
    lines = {"bash": bash, "zsh": zsh, "fish": fish}[arguments.shell](arguments.parsers)
    print("\n".join(lines))
    return 0


def bash(parsers: Mapping[str, ArgumentParser]) -> Iterator[str]:
    """Yields a bash function: subcommands first, then each one's options and their choices."""
    yield "_attnmem() {"
    yield '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words=""'
    yield '  if [ "$COMP_CWORD" -eq 1 ]; then'
    yield f"    words={quote(' '.join(parsers))}"
    yield "  else"
    yield '    case "${COMP_WORDS[1]} $before" in'
    for name, parser in parsers.items():
        for action in _actions(parser):
            if action.choices and action.option_strings:
                patterns = "|".join(quote(f"{name} {option}") for option in action.option_strings)
                yield f"      {patterns}) words={quote(_choices(action))} ;;"
    yield '      *) case "${COMP_WORDS[1]}" in'
    for name, parser in parsers.items():
        yield f"        {name}) words={quote(' '.join(_words(parser)))} ;;"
    yield "      esac ;;"
    yield "    esac"
    yield "  fi"
    yield '  COMPREPLY=($(compgen -W "$words" -- "$word"))'
    yield "}"
    yield "complete -o default -F _attnmem attnmem"


def zsh(parsers: Mapping[str, ArgumentParser]) -> Iterator[str]:
    """Yields the bash function for zsh's own support of bash completion."""
    yield "autoload -U +X bashcompinit && bashcompinit"
    yield from bash(parsers)


def fish(parsers: Mapping[str, ArgumentParser]) -> Iterator[str]:
    """Yields a line for each subcommand, option and choice."""
    yield "complete -c attnmem -n __fish_use_subcommand -f"
    for name, parser in parsers.items():
        about = quote(parser.description or "")
        yield f"complete -c attnmem -n __fish_use_subcommand -f -a {name} -d {about}"
    for name, parser in parsers.items():
        here = f"complete -c attnmem -n '__fish_seen_subcommand_from {name}'"
        for action in _actions(parser):
            values = f" -a {quote(_choices(action))}" if action.choices else ""
            if not action.option_strings:
                if values:
                    yield f"{here} -f{values}"
                continue
            options = "".join(
                f" -l {option[2:]}" if option.startswith("--") else f" -s {option[1:]}"
                for option in action.option_strings
            )
            takes = " -r" if action.nargs != 0 else ""
            yield f"{here}{options}{takes}{values} -d {quote(_help(action))}"


def _actions(parser: ArgumentParser) -> list[Action]:
    return [action for action in parser._actions if action.help != SUPPRESS]


def _words(parser: ArgumentParser) -> Iterator[str]:
    for action in _actions(parser):
        yield from action.option_strings or ([_choices(action)] if action.choices else [])


def _choices(action: Action) -> str:
    return " ".join(map(str, action.choices or ()))


def _help(action: Action) -> str:
    """Returns the first words of the help, without what argparse fills in."""
    return (action.help or "").partition(" (default")[0].replace("%%", "%")
