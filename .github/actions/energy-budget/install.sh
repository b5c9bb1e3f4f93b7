#!/usr/bin/env bash
# Unpacks a release of energy-trace for this job and puts it on its PATH.
set -euo pipefail
: "${ARCHIVE:?a URL or a path}" "${SHA256:=}" "${RUNNER_TEMP:?}" "${GITHUB_PATH:?}"

folder=$RUNNER_TEMP/energy-trace
mkdir -p "$folder"
case $ARCHIVE in
https://*)
    [ -n "$SHA256" ] || { echo "::error::sha256 is needed with a URL: it is in the release's SHA256SUMS"; exit 2; }
    curl --proto '=https' --tlsv1.2 --fail --silent --show-error --location --output "$folder/archive.tar.gz" "$ARCHIVE"
    ;;
*) cp "$ARCHIVE" "$folder/archive.tar.gz" ;;
esac
[ -z "$SHA256" ] || echo "$SHA256  $folder/archive.tar.gz" | sha256sum --check --quiet
tar -C "$folder" --strip-components=1 -xzf "$folder/archive.tar.gz"
echo "$folder/bin" >>"$GITHUB_PATH"
"$folder/bin/energy-trace" --version
