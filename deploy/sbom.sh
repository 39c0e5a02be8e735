#!/bin/sh
# Print a list of the components of an image from scratch, as an SPDX document (version 2.3, JSON):
#
#   deploy/sbom.sh ROOT VERSION [BASE [TIME]]     BASE: the image in which ROOT was built, as NAME:TAG@sha256:DIGEST
#                                                 TIME: seconds since 1970, the default is now
#
# VERSION is Tally's version. The Debian packages are those with an entry in ROOT/var/lib/dpkg/status.d; their files are
# listed in NAME.md5sums beside the entry, and all other files are Tally's. The document has SHA-1 and SHA-256 of each
# file, and the licence of each package: the one that its copyright notice declares for files without another licence,
# if programs can read the notice (https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/). The script needs
# only a shell, awk and coreutils, because it runs where the image is built.
set -eu

root=$1 version=$2 base=${3:-} time=${4:-$(date +%s)}
created=$(date -u -d "@$time" +%Y-%m-%dT%H:%M:%SZ)
# shellcheck source=/dev/null
distribution=$(. "${OS_RELEASE:-/etc/os-release}" && echo "$ID-$VERSION_ID")
entries=$root/var/lib/dpkg/status.d
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

packages=$(for entry in "$entries"/*; do
    case $entry in *.md5sums) ;; *) echo "${entry##*/}" ;; esac
done)

# Write sha1 and sha256: a line "HASH  FILE" for each file except this document and the lists of packages.
(cd "$root" && find . -type f ! -path './var/lib/dpkg/*' ! -name sbom.spdx.json) | sed 's|^\./||' |
    LC_ALL=C sort >"$work/files"
(cd "$root" && tr '\n' '\0' <"$work/files" | xargs -0 sha1sum) >"$work/sha1"
(cd "$root" && tr '\n' '\0' <"$work/files" | xargs -0 sha256sum) >"$work/sha256"

# Write owned: a line "PACKAGE FILE" for each file of a Debian package; and owners, which adds the files of Tally.
for package in $packages; do
    [ ! -e "$entries/$package.md5sums" ] ||
        awk -v package="$package" '{ sub(/^[^ ]+ +/, ""); print package " " $0 }' "$entries/$package.md5sums"
done >"$work/owned"
awk 'NR == FNR { sub(/^[^ ]+ /, ""); owned[$0] = 1; next } !($0 in owned) { print "tally " $0 }' \
    "$work/owned" "$work/files" | cat "$work/owned" - >"$work/owners"

# Write codes: a line "PACKAGE CODE" for each package. CODE is the package verification code that SPDX defines: the SHA-1
# of the sorted SHA-1 hashes of the files of the package.
for package in tally $packages; do
    awk -v package="$package" '
        NR == FNR { if ($1 == package) { sub(/^[^ ]+ /, ""); mine[$0] = 1 } next }
        { hash = $1; sub(/^[^ ]+ +/, ""); if ($0 in mine) print hash }' "$work/owners" "$work/sha1" |
        LC_ALL=C sort | tr -d '\n' | sha1sum | sed "s/^\([0-9a-f]*\).*/$package \1/"
done >"$work/codes"

# Write licenses: a line "PACKAGE LICENCE" for each package, with Debian's name of the licence.
for package in $packages; do
    notice=$root/usr/share/doc/$package/copyright
    [ ! -e "$notice" ] || awk -v package="$package" '
        NR == 1 && !/^Format: .*copyright-format/ { exit }
        /^Files:/ { all = /^Files:[ \t]*\*[ \t]*$/ }
        all && /^License:/ { sub(/^License:[ \t]*/, ""); print package " " $0; exit }' "$notice"
done >"$work/licenses"

digest=$(cat "$entries"/* "$work/sha256" | sha256sum)
for package in $packages; do cat "$entries/$package"; done >"$work/entries"

awk -v version="$version" -v created="$created" -v distribution="$distribution" -v digest="${digest%% *}" \
    -v base="$base" '
    function text(s) {
        gsub(/\\/, "\\\\", s)
        gsub(/"/, "\\\"", s)
        return "\"" s "\""
    }
    # Escape the characters that a purl must not contain.
    function escaped(s) {
        gsub(/%/, "%25", s)
        gsub(/\+/, "%2B", s)
        gsub(/:/, "%3A", s)
        return s
    }
    function id(s) {
        gsub(/[^A-Za-z0-9.-]/, "-", s)
        return "SPDXRef-" s
    }
    # Translate GPL-2+ to GPL-2.0-or-later, and so on; a licence without an SPDX name gets a name that refers to the
    # notice.
    function license_id(name, package, parts, number) {
        if (tolower(name) in spdx)
            return spdx[tolower(name)]
        if (name ~ /^(A|L)?GPL-?v?[0-9]+(\.[0-9]+)?\+?$/) {
            split(name, parts, "GPL")
            number = parts[2]
            gsub(/[-v+]/, "", number)
            return parts[1] "GPL-" number (number ~ /\./ ? "" : ".0") (name ~ /\+$/ ? "-or-later" : "-only")
        }
        number = name
        gsub(/[^A-Za-z0-9.-]/, "-", number)
        number = "LicenseRef-" package "-" number
        if (!(number in refers)) {
            refers[number] = name
            where[number] = "usr/share/doc/" package "/copyright"
            reference[++references] = number
        }
        return number
    }
    # "A or B and C" means the same in both formats; a comma does not, so a line with a comma becomes a single
    # licence.
    function license_expression(words, package, count, i, names, out) {
        if (words ~ /,/)
            return license_id(words, package)
        gsub(/ and /, "\001AND\001", words)
        gsub(/ or /, "\001OR\001", words)
        count = split(words, names, "\001")
        out = ""
        for (i = 1; i <= count; i++)
            out = out (i % 2 == 1 ? license_id(names[i], package) : " " names[i] " ")
        return out
    }
    function package_begin(key, name, number, supplier, license, purpose) {
        printf "%s    {\"SPDXID\": %s, \"name\": %s, \"versionInfo\": %s, \"supplier\": %s,\n", separator,
            text(id("Package-" key)), text(name), text(number), text(supplier)
        printf "     \"downloadLocation\": \"NOASSERTION\", \"copyrightText\": \"NOASSERTION\",\n"
        printf "     \"licenseConcluded\": \"NOASSERTION\", \"licenseDeclared\": %s,\n", text(license)
        printf "     \"primaryPackagePurpose\": %s,\n", text(purpose)
        separator = ",\n"
    }
    function package_end(purl) {
        printf "     \"externalRefs\": [{\"referenceCategory\": \"PACKAGE-MANAGER\",\n"
        printf "      \"referenceType\": \"purl\", \"referenceLocator\": %s}]}", text(purl)
    }
    function package(name, number, supplier, license, purl, purpose) {
        package_begin(name, name, number, supplier, license, purpose)
        if (name in holds)
            printf "     \"filesAnalyzed\": true, \"packageVerificationCode\": {\"packageVerificationCodeValue\": %s},\n",
                text(code[name])
        else
            printf "     \"filesAnalyzed\": false,\n"
        if (license == "NOASSERTION")
            printf "     \"licenseComments\": %s,\n", text("usr/share/doc/" name "/copyright has no line for programs that is of all files")
        package_end(purl)
    }
    # NAME:TAG@sha256:DIGEST, with or without tag and digest.
    function base_package(at, pinned, name, tag) {
        name = base
        at = index(name, "@sha256:")
        pinned = at > 0 ? substr(name, at + 8) : ""
        name = at > 0 ? substr(name, 1, at - 1) : name
        tag = name ~ /:[^\/:]*$/ ? substr(name, match(name, /:[^\/:]*$/) + 1) : "latest"
        sub(/:[^\/:]*$/, "", name)
        package_begin("base-image", name, tag, "NOASSERTION", "NOASSERTION", "CONTAINER")
        printf "     \"filesAnalyzed\": false,\n"
        if (pinned != "")
            printf "     \"checksums\": [{\"algorithm\": \"SHA256\", \"checksumValue\": %s}],\n", text(pinned)
        else
            printf "     \"comment\": \"It was named without a digest: which image that was is not known.\",\n"
        at = name
        sub(/.*\//, "", at)
        package_end("pkg:oci/" at (pinned != "" ? "@sha256%3A" pinned : "") "?repository_url=" escaped(name) "&tag=" tag)
    }
    function end_of_entry() {
        if (name != "" && !(name in seen)) {
            seen[name] = 1
            names[++count] = name
            package(name, number, "Person: " maintainer, \
                name in license ? license_expression(license[name], name) : "NOASSERTION", \
                "pkg:deb/debian/" escaped(name) "@" escaped(number) "?arch=" architecture "&distro=" distribution, \
                "LIBRARY")
        }
        name = ""
    }
    function relationship(from, type, to) {
        printf "%s    {\"spdxElementId\": %s, \"relationshipType\": \"%s\", \"relatedSpdxElement\": %s}", separator,
            text(from), type, text(to)
        separator = ",\n"
    }
    BEGIN {
        known = "Apache-2.0 BSD-2-Clause BSD-3-Clause BSD-4-Clause BSD-4-Clause-UC curl ISC MIT MPL-2.0 OLDAP-2.8 X11 Zlib"
        for (i = split(known, list, " "); i > 0; i--)
            spdx[tolower(list[i])] = list[i]
        spdx["expat"] = "MIT"
        spdx["cc0"] = "CC0-1.0"
    }
    kind == "sha1" || kind == "sha256" {
        hash = $1
        sub(/^[^ ]+ +/, "")
        if (kind == "sha1")
            sha1[$0] = hash
        else {
            sha256[$0] = hash
            path[++paths] = $0
        }
        next
    }
    kind == "owners" || kind == "codes" || kind == "licenses" {
        key = $1
        sub(/^[^ ]+ /, "")
        if (kind == "owners") {
            owner[$0] = key
            holds[key] = 1
        } else if (kind == "codes")
            code[key] = $0
        else
            license[key] = $0
        next
    }
    !begun {
        begun = 1
        printf "{\"spdxVersion\": \"SPDX-2.3\", \"dataLicense\": \"CC0-1.0\", \"SPDXID\": \"SPDXRef-DOCUMENT\",\n"
        printf " \"name\": %s,\n", text("tally-" version)
        printf " \"documentNamespace\": %s,\n", text("https://spdx.org/spdxdocs/tally-" version "-" digest)
        printf " \"creationInfo\": {\"created\": %s, \"creators\": [\"Tool: tally-sbom.sh-%s\"]},\n", text(created), version
        printf " \"packages\": [\n"
        package("tally", version, "NOASSERTION", "Apache-2.0", "pkg:generic/tally@" escaped(version), "APPLICATION")
        if (base != "")
            base_package()
    }
    /^Package: / {
        end_of_entry()
        name = $2
    }
    /^Version: / { number = $2 }
    /^Architecture: / { architecture = $2 }
    /^Maintainer: / {
        maintainer = substr($0, 13)
        sub(/ *</, " (", maintainer)
        sub(/>.*/, ")", maintainer)
    }
    END {
        end_of_entry()
        printf "\n ],\n \"files\": [\n"
        separator = ""
        for (i = 1; i <= paths; i++) {
            printf "%s    {\"SPDXID\": \"SPDXRef-File-%d\", \"fileName\": %s,\n", separator, i, text("./" path[i])
            printf "     \"licenseConcluded\": \"NOASSERTION\", \"copyrightText\": \"NOASSERTION\",\n"
            printf "     \"checksums\": [{\"algorithm\": \"SHA1\", \"checksumValue\": %s},\n", text(sha1[path[i]])
            printf "      {\"algorithm\": \"SHA256\", \"checksumValue\": %s}]}", text(sha256[path[i]])
            separator = ",\n"
        }
        printf "\n ],\n \"hasExtractedLicensingInfos\": [\n"
        separator = ""
        for (i = 1; i <= references; i++) {
            printf "%s    {\"licenseId\": %s, \"name\": %s, \"extractedText\": %s}", separator, text(reference[i]),
                text(refers[reference[i]]), text("The licence of this name in " where[reference[i]] " of the image.")
            separator = ",\n"
        }
        printf "\n ],\n \"relationships\": [\n"
        separator = ""
        tally = id("Package-tally")
        relationship("SPDXRef-DOCUMENT", "DESCRIBES", tally)
        for (i = 1; i <= count; i++)
            relationship(tally, "DEPENDS_ON", id("Package-" names[i]))
        if (base != "")
            relationship(id("Package-base-image"), "BUILD_DEPENDENCY_OF", tally)
        for (i = 1; i <= paths; i++)
            relationship(id("Package-" owner[path[i]]), "CONTAINS", "SPDXRef-File-" i)
        printf "\n ]}\n"
    }' kind=sha1 "$work/sha1" kind=sha256 "$work/sha256" kind=owners "$work/owners" kind=codes "$work/codes" \
    kind=licenses "$work/licenses" kind=entries "$work/entries"
