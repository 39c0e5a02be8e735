#!/bin/sh
# Writes two header fields of the console's answer. The build runs it:
#
#   console.sh console.html build/console      writes build/console/csp and build/console/etag
#
# The policy contains the hashes of the page's only <style> and only <script>, so a browser applies
# and runs nothing else. Each of the four tags is alone on its line. A browser hashes all text
# between two tags, with the line break after the first tag. The ETag is a hash of the page.
set -eu

page=$1 to=$2

# Prints the hash of standard input in the form of CSP: base64 of the bytes, not of the digits.
hash_source() { sha256sum | cut -c1-64 | tr a-f A-F | basenc --base16 -d | base64 -w0; }

hash_of() { # hash_of TAG
    if [ "$(grep -c "^<$1>\$" "$page")" != 1 ] || [ "$(grep -c "^</$1>\$" "$page")" != 1 ]; then
        echo "console.sh: $page must have one <$1>, alone on its line" >&2
        return 1
    fi
    { echo && sed -n "/^<$1>\$/,/^<\/$1>\$/p" "$page" | sed '1d;$d'; } | hash_source
}

style=$(hash_of style)
script=$(hash_of script)
printf '%s; ' "default-src 'none'" "style-src 'sha256-$style'" "script-src 'sha256-$script'" "connect-src 'self'" \
    "img-src data:" "base-uri 'none'" "form-action 'none'" >"$to/csp"
printf '%s' "frame-ancestors 'none'" >>"$to/csp"
# written last, because this file is the target of the Makefile rule
printf '"%s"' "$(sha256sum <"$page" | cut -c1-32)" >"$to/etag"
