#!/usr/bin/env bash
# Measures the head of a pull request and its base, and writes what changed.
#
# Reads ATTNMEM_BACKEND, ATTNMEM_TESTS, ATTNMEM_INSTALL, ATTNMEM_TORCH, ATTNMEM_FAIL_ON,
# ATTNMEM_BASE, ATTNMEM_HISTORY, the branch that keeps the history, and ATTNMEM_EVENT. Sets the
# outputs results, a folder, and code, which a later step exits with: the comment comes before the
# check fails.
set -uo pipefail

results=${RUNNER_TEMP:?}/attnmem
mkdir -p "$results"
mapfile -t tests < <(printf '%s' "$ATTNMEM_TESTS" | sed '/^[[:space:]]*$/d')

install() {
  if [ -n "$ATTNMEM_INSTALL" ]; then bash -euc "$ATTNMEM_INSTALL"; fi
}

measure() { # JSON, then more options
  local json=$1
  shift
  python -m pytest --attnmem-backend "$ATTNMEM_BACKEND" --attnmem-explain all \
    --attnmem-json "$json" "$@" ${tests[@]+"${tests[@]}"}
}

uv pip install "$ATTNMEM_TORCH" || exit 1
uv pip install "pytest-attnmem[torch] @ file://${GITHUB_ACTION_PATH:?}" || exit 1
install || exit 1
if [[ "$ATTNMEM_BACKEND" == null* ]]; then attnmem install null --with triton || exit 1; fi

measure "$results/head.json" --attnmem-github --attnmem-html "$results/memory.html" \
  --attnmem-markdown "$results/head.md"
code=$?
if [ ! -f "$results/head.json" ]; then exit "$(( code ? code : 1 ))"; fi

if [ -n "$ATTNMEM_BASE" ] && git worktree add --detach "$results/base" "$ATTNMEM_BASE"; then
  echo "::group::The base commit, $ATTNMEM_BASE"
  # Its failures are not those of the pull request.
  (cd "$results/base" && install && measure "$results/base.json")
  echo "::endgroup::"
  git worktree remove --force "$results/base"
fi

if [ -n "$ATTNMEM_HISTORY" ]; then
  parent=()
  if git fetch --quiet --depth 1 origin "refs/heads/$ATTNMEM_HISTORY"; then
    parent=(-p FETCH_HEAD)
    git show FETCH_HEAD:history.json > "$results/history.json"
  fi
  # Only the newest commit of a branch is kept; one of a pull request may never be.
  if attnmem history ${parent:+--from "$results/history.json"} --add "$results/head.json" \
    --json "$results/history.json" --html "$results/history.html" \
    --markdown "$results/history.md" && [ "$ATTNMEM_EVENT" = push ]; then
    entry=$(git hash-object -w "$results/history.json") &&
      tree=$(printf '100644 blob %s\thistory.json\n' "$entry" | git mktree) &&
      commit=$(git -c user.name=attnmem -c user.email=attnmem@users.noreply.github.com \
        commit-tree "$tree" ${parent[@]+"${parent[@]}"} -m "Add the memory of ${GITHUB_SHA:-HEAD}") &&
      git push --quiet origin "$commit:refs/heads/$ATTNMEM_HISTORY" ||
      echo "::notice::The history was not kept; give the job contents: write."
  fi
fi

{
  echo "<!-- attnmem -->"
  if [ -f "$results/base.json" ]; then
    tolerance=$ATTNMEM_FAIL_ON
    if [ "$tolerance" = never ]; then tolerance=0; fi
    attnmem compare "$results/base.json" "$results/head.json" --markdown --fail-on "$tolerance"
    compared=$?
    if [ "$compared" -ne 0 ] && [ "$code" -eq 0 ] && [ "$ATTNMEM_FAIL_ON" != never ]; then
      code=$compared
    fi
    echo
  fi
  if [ -f "$results/history.md" ]; then
    echo "<details><summary>Over commits</summary>"
    echo
    cat "$results/history.md"
    echo "</details>"
    echo
  fi
  # One table is enough: that of the budgets is folded below the changes.
  echo "<details><summary>Budgets</summary>"
  echo
  cat "$results/head.md"
  echo "</details>"
} > "$results/comment.md"
cat "$results/comment.md" >> "$GITHUB_STEP_SUMMARY"
echo "results=$results" >> "$GITHUB_OUTPUT"
echo "code=$code" >> "$GITHUB_OUTPUT"
