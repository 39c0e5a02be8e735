#!/bin/sh
# What an image from scratch is made of, as an SPDX document (version 2.3, JSON):
#
#   deploy/sbom.sh ROOT VERSION [TIME]        TIME: seconds since 1970, the default is now
#
# Tally is of that version; what it needs of Debian is what ROOT/var/lib/dpkg/status.d has entries of. Nothing but a
# shell and awk: it runs where the image is made.
set -eu

root=$1 version=$2 time=${3:-$(date +%s)}
created=$(date -u -d "@$time" +%Y-%m-%dT%H:%M:%SZ)
# shellcheck source=/dev/null
distribution=$(. "${OS_RELEASE:-/etc/os-release}" && echo "$ID-$VERSION_ID")
digest=$(cat "$root"/var/lib/dpkg/status.d/* "$root"/usr/local/bin/tallyd "$root"/usr/local/bin/tally | sha256sum)

cat "$root"/var/lib/dpkg/status.d/* | awk -v version="$version" -v created="$created" \
    -v distribution="$distribution" -v digest="${digest%% *}" '
    function text(s) {
        gsub(/\\/, "\\\\", s)
        gsub(/"/, "\\\"", s)
        return "\"" s "\""
    }
    # What a purl must not have in it as it is.
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
    function package(name, number, supplier, license, purl, purpose) {
        printf "%s    {\"SPDXID\": %s, \"name\": %s, \"versionInfo\": %s, \"supplier\": %s,\n", separator,
            text(id("Package-" name)), text(name), text(number), text(supplier)
        printf "     \"downloadLocation\": \"NOASSERTION\", \"filesAnalyzed\": false, \"copyrightText\": \"NOASSERTION\",\n"
        printf "     \"licenseConcluded\": \"NOASSERTION\", \"licenseDeclared\": %s,\n", text(license)
        printf "     \"primaryPackagePurpose\": %s, \"externalRefs\": [{\"referenceCategory\": \"PACKAGE-MANAGER\",\n",
            text(purpose)
        printf "      \"referenceType\": \"purl\", \"referenceLocator\": %s}]}", text(purl)
        separator = ",\n"
    }
    function end_of_entry() {
        if (name != "" && !(name in seen)) {
            seen[name] = 1
            names[++count] = name
            package(name, number, "Person: " maintainer, "NOASSERTION", "pkg:deb/debian/" escaped(name) "@" \
                escaped(number) "?arch=" architecture "&distro=" distribution, "LIBRARY")
        }
        name = ""
    }
    BEGIN {
        printf "{\"spdxVersion\": \"SPDX-2.3\", \"dataLicense\": \"CC0-1.0\", \"SPDXID\": \"SPDXRef-DOCUMENT\",\n"
        printf " \"name\": %s,\n", text("tally-" version)
        printf " \"documentNamespace\": %s,\n", text("https://spdx.org/spdxdocs/tally-" version "-" digest)
        printf " \"creationInfo\": {\"created\": %s, \"creators\": [\"Tool: tally-sbom.sh-%s\"]},\n", text(created), version
        printf " \"packages\": [\n"
        package("tally", version, "NOASSERTION", "Apache-2.0", "pkg:generic/tally@" escaped(version), "APPLICATION")
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
        printf "\n ],\n \"relationships\": [\n"
        printf "    {\"spdxElementId\": \"SPDXRef-DOCUMENT\", \"relationshipType\": \"DESCRIBES\", \"relatedSpdxElement\": %s}",
            text(id("Package-tally"))
        for (i = 1; i <= count; i++)
            printf ",\n    {\"spdxElementId\": %s, \"relationshipType\": \"DEPENDS_ON\", \"relatedSpdxElement\": %s}",
                text(id("Package-tally")), text(id("Package-" names[i]))
        printf "\n ]}\n"
    }'
