#!/usr/bin/env bash
# Writes the comment on the pull request: it replaces the one of an earlier run.
set -euo pipefail

file=$1
comments="repos/${GITHUB_REPOSITORY:?}/issues/${ATTNMEM_PULL_REQUEST:?}/comments"
# A pull request from a fork has a token that may not write: the job's summary has the same text.
{
  id=$(gh api "$comments" --paginate \
    --jq '.[] | select(.body | startswith("<!-- attnmem -->")) | .id' | head -n 1)
  if [ -n "$id" ]; then
    gh api --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$id" -F "body=@$file" --silent
  else
    gh api --method POST "$comments" -F "body=@$file" --silent
  fi
} || echo "::notice::The token may not comment; give the job pull-requests: write. The summary has the text."
