#!/bin/sh
# Rebuild static/vendor and tests/vendor from the locked packages (`make vendor`).
# Nothing is bundled: each file is the package's own, beside its licence, and SHA256SUMS
# holds what CI compares.  Needs Node and npm; whoever only runs Beacon needs neither.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$(dirname -- "$here")
modules=$here/node_modules

(cd "$here" && npm ci --silent)

take() { # take <package> <file in the package> <folder> <name>
    mkdir -p "$root/$3"
    cp "$modules/$1/$2" "$root/$3/$4"
    chmod 644 "$root/$3/$4"
}

take htmx.org dist/htmx.min.js static/vendor htmx.min.js
take htmx.org LICENSE static/vendor htmx.LICENSE.txt
take modern-normalize modern-normalize.css static/vendor modern-normalize.css
take modern-normalize license static/vendor modern-normalize.LICENSE.txt
take axe-core axe.min.js tests/vendor axe.min.js
take axe-core LICENSE tests/vendor axe.LICENSE.txt
take axe-core LICENSE-3RD-PARTY.txt tests/vendor axe.LICENSE-3RD-PARTY.txt

for folder in static/vendor tests/vendor; do
    (
        cd "$root/$folder"
        find . -maxdepth 1 -type f ! -name SHA256SUMS ! -name '*.md' ! -name '*.py' |
            sed 's|^\./||' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS
    )
done
