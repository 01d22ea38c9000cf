#!/bin/sh
# Rebuild static/vendor and tests/vendor from the locked packages (`make vendor`).
# Each file is the package's own, beside its licence. Only the editor of memory files is bundled
# (editor.js here, by esbuild), and the fonts are cut to the letters pages show (fonts.mjs).  SHA256SUMS holds what CI compares.  Needs Node and npm; whoever only runs Beacon needs neither.
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
take @fontsource-variable/source-sans-3 LICENSE static/vendor source-sans.LICENSE.txt
take @fontsource-variable/source-serif-4 LICENSE static/vendor source-serif.LICENSE.txt
take source-sans LICENSE.md static/vendor source-sans-pdf.LICENSE.txt
take axe-core axe.min.js tests/vendor axe.min.js
take axe-core LICENSE tests/vendor axe.LICENSE.txt
take axe-core LICENSE-3RD-PARTY.txt tests/vendor axe.LICENSE-3RD-PARTY.txt

node "$here/fonts.mjs" "$modules" "$root/static/vendor"
"$modules/.bin/esbuild" "$here/editor.js" --bundle --minify --format=iife --global-name=BeaconEditor \
    --target=es2022 --legal-comments=none --log-level=warning --outfile="$root/static/vendor/editor.js"
(
    cd "$modules"
    for licence in @codemirror/*/LICENSE @lezer/*/LICENSE @marijn/*/LICENSE crelt/LICENSE \
        style-mod/LICENSE w3c-keyname/LICENSE; do
        printf '== %s\n\n' "$(dirname "$licence")"
        cat "$licence"
        echo
    done
) >"$root/static/vendor/editor.LICENSE.txt"

for folder in static/vendor tests/vendor; do
    (
        cd "$root/$folder"
        find . -maxdepth 1 -type f ! -name SHA256SUMS ! -name '*.md' ! -name '*.py' |
            sed 's|^\./||' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS
    )
done
