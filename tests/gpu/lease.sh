#!/bin/sh
# Measure Tally on a machine with a GPU, which is often lent for half an hour only:
#
#   sh tests/gpu/lease.sh pack FOLDER                              on the build machine
#   sh FOLDER/lease.sh [--quick] [--device N] [--seconds N] [--out DIR] [STEP ...]    on the GPU's machine
#
# `pack` builds the programs and copies them into FOLDER with the libraries they need, some requests, and the answers
# that a processor gave to them. The other machine needs no compiler, no package and no network: it needs a glibc as
# new as the build machine's, coreutils, awk, and an OpenCL driver. The steps run in this order:
#
#   device    list the devices, the driver, the processor
#   kernels   build every program with the driver's compiler; compare the corpus with the oracle
#   lookback  do the same with look-back, also with work-groups that publish late or nothing
#   copy      measure the device's own copy
#   bench     measure scans and divide them by the copy, the most important ones first
#   service   start tallyd on the device; compare its answers with the processor's, bit for bit
#
# Every command has a limit, and the whole run ends after --seconds (1500). A command that fails or exceeds its limit is
# recorded, and the next command runs. The output of all commands is in DIR/figures.txt (FOLDER/results/figures.txt);
# the screen shows a line for each command. The exit status is 0 if all commands succeeded.
#
# The script searches FOLDER/driver, /usr and /opt for a driver that the ICD loader does not find.
#
# --device N  the number that `test_corpus --list` prints; else the first device of another driver than PoCL or Tally
# --quick     the smallest amount of each step, for a test of this script: its speeds mean nothing
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 1

die() {
    printf 'lease.sh: %s\n' "$*" >&2
    exit 2
}

# Use the packed libraries; those in `spare` only if the machine lacks them, because a driver may need newer ones.
use_packed_libraries() {
    needed=$1/lib
    known=$(ldconfig -p 2>/dev/null || /sbin/ldconfig -p 2>/dev/null)
    mkdir -p "$work/spare"
    for file in "$1"/spare/*; do
        printf '%s\n' "$known" | grep -qF "${file##*/} " || cp "$file" "$work/spare/"
    done
    LD_LIBRARY_PATH=$needed:$work/spare${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
}

# ---- pack ----

pack() {
    cd "$here/../.." || exit 1
    mkdir -p "$1" || exit 1
    folder=$(cd "$1" && pwd)
    tree=build/lease
    # A separate build tree: programs without the kernels for CPUs must not replace the usual ones.
    # shellcheck disable=SC2086  # a list of words
    ${MAKE:-make} --no-print-directory -s -j"$(nproc)" LEVELS=none B=$tree BIN=$tree/bin $tree/bin/kernel_bench \
        $tree/tests/kernels/test_corpus $tree/tests/kernels/test_lookback $tree/tests/kernels/test_sources || exit 1
    ${MAKE:-make} --no-print-directory -s -j"$(nproc)" build/bin/tallyd build/bin/tally || exit 1
    rm -rf "${folder:?}/bin" "${folder:?}/lib" "$folder/spare" "$folder/requests"
    mkdir -p "$folder/bin" "$folder/lib" "$folder/spare" "$folder/requests"
    for program in $tree/bin/kernel_bench $tree/tests/kernels/test_corpus $tree/tests/kernels/test_lookback \
        $tree/tests/kernels/test_sources build/bin/tallyd build/bin/tally; do
        strip -o "$folder/bin/${program##*/}" "$program" || exit 1
    done
    # Libraries of glibc are not packed: they must match the other machine's loader.
    ldd build/bin/tallyd build/bin/tally | awk '$2 == "=>" { print $1, $3 }' | sort -u | while read -r name path; do
        case $name in
        libc.so.* | libm.so.* | libresolv.so.* | libpthread.so.* | libdl.so.* | librt.so.*) ;;
        libstdc++.so.* | libgcc_s.so.* | libOpenCL.so.*) cp -L "$path" "$folder/spare/$name" || exit 1 ;;
        *) cp -L "$path" "$folder/lib/$name" || exit 1 ;;
        esac
    done || exit 1
    cp "$here/lease.sh" "$folder/"
    git describe --always --dirty >"$folder/commit" 2>/dev/null || echo unknown >"$folder/commit"
    python3 tests/gpu/requests.py "$folder/requests" || exit 1
    sh "$folder/lease.sh" answer cpu "$folder/requests" >"$folder/requests/log" 2>&1 || {
        cat "$folder/requests/log"
        die "the processor did not answer the requests"
    }
    du -sh "$folder"
}

# ---- the service ----

# answer DEVICES DIR: start tallyd on these devices and write its answer to every packed request into DIR/NAME.out.
answer() {
    use_packed_libraries "$here"
    PATH=$here/bin:$PATH
    export TALLY_URL="unix:$work/socket"
    tallyd --listen "$TALLY_URL" --devices "$1" --drain-delay-ms 0 &
    server=$!
    # A driver that compiles needs time until it is ready: the limit of this command bounds the wait.
    until tally health --retries 0 >/dev/null 2>&1; do
        kill -0 $server 2>/dev/null || die "tallyd ended before it was ready"
        sleep 1
    done
    while read -r name dtype shape options; do
        # shellcheck disable=SC2086  # a list of words
        tally cumsum --quiet --format raw --dtype "$dtype" --shape "$shape" $options \
            --output-format raw --output "$2/$name.out" "$here/requests/$name.in" || exit 1
    done <"$here/requests/list"
    devices=$(tally devices)
    kill $server
    wait $server
    server=''
    printf '%s\n' "$devices"
}

# compare DIR: compare the answers in DIR with those of the processor.
compare() {
    equal=0 count=0
    while read -r name dtype shape options; do
        count=$((count + 1))
        if cmp "$1/$name.out" "$here/requests/$name.out"; then
            equal=$((equal + 1))
        else
            printf '%s (%s %s %s) differs from the answer of the processor\n' "$name" "$dtype" "$shape" "$options"
        fi
    done <"$here/requests/list"
    printf '%d of %d answers have the bits of the processor\n' "$equal" "$count"
    [ "$equal" -eq "$count" ]
}

# ---- running commands ----

# run NAME LIMIT COMMAND ...: run the command for at most LIMIT seconds. Its output goes to the figures, and its result
# to the screen with the last line of the output.
run() {
    name=$1 limit=$2
    shift 2
    begin=$(date +%s)
    left=$((deadline - reserve - begin))
    [ "$limit" -le "$left" ] || limit=$left
    if [ "$limit" -le 0 ]; then
        result='NOT RUN, no time is left'
        : >"$log"
    else
        status=0
        timeout -k 10 "$limit" "$@" >"$log" 2>&1 </dev/null || status=$?
        case $status in
        0) result=ok ;;
        124 | 137) result="OUT OF TIME after $limit s" ;;
        *) result="FAILED with status $status" ;;
        esac
    fi
    [ "$result" = ok ] || failed=$((failed + 1))
    commands=$((commands + 1))
    {
        printf '\n== %s: %s (%d s)\n$ %s\n' "$name" "$result" $(($(date +%s) - begin)) "$*"
        tail -n 2000 "$log"
    } >>"$figures"
    printf '%-34s %-4s %s\n' "$name" "$result" "$(tail -n 1 "$log" | cut -c 1-100)"
    [ "$result" = ok ]
}

# ---- steps ----

# find_driver: search for the library of a GPU's driver that no file of the ICD loader names or that the loader does not
# find. Returns false if there is none.
find_driver() {
    [ -z "${OCL_ICD_VENDORS:-}" ] || return 1
    mkdir -p "$work/vendors"
    for name in libnvidia-opencl.so libamdocl64.so libigdrcl.so; do
        library=$(timeout 60 find "$here/driver" /usr/lib /usr/lib64 /usr/local /opt -name "$name*" 2>/dev/null |
            head -n 1)
        [ -z "$library" ] || {
            printf '%s\n' "$library" >"$work/vendors/$name.icd"
            LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$(dirname "$library")
        }
    done
    export LD_LIBRARY_PATH
    export OCL_ICD_VENDORS="$work/vendors"
    ls "$work/vendors"/*.icd >/dev/null 2>&1
}

machine() {
    printf 'commit %s\n' "$(cat "$here/commit")"
    uname -a
    grep -m 1 'model name' /proc/cpuinfo
    grep MemTotal /proc/meminfo
    ldd --version | head -n 1
    printf 'OCL_ICD_VENDORS=%s\n' "${OCL_ICD_VENDORS:-}"
    for tool in nvidia-smi rocm-smi 'clinfo'; do
        ! command -v $tool >/dev/null || timeout 30 $tool
    done
    test_corpus --list
}

step_device() { run 'device: machine' 120 sh "$here/lease.sh" machine; }

corpus() { # corpus NAME LIMIT ARGUMENT ...
    name=$1 limit=$2
    shift 2
    run "$name" "$limit" test_corpus --device "$device" --gpu-kernels "$@"
}

step_kernels() {
    run 'kernels: every program builds' 180 test_sources
    if [ -n "$quick" ]; then
        corpus 'kernels: corpus, tiny' 120 --tiny --way 2
        return
    fi
    corpus 'kernels: corpus, tiny' 120 --tiny
    corpus 'kernels: corpus' 240 --all
    corpus 'kernels: corpus, 64-bit offsets' 120 --quick --wide-index
}

step_lookback() {
    if [ -n "$quick" ]; then
        corpus 'lookback: corpus, tiny' 120 --tiny --way 2 --lookback
        return
    fi
    run 'lookback: trials' 180 test_lookback
    corpus 'lookback: corpus' 90 --all --lookback
    corpus 'lookback: hostile corpus' 90 --all --hostile-lookback
}

measure() { # measure NAME MEGABYTES ARGUMENT ...
    name=$1 megabytes=$2
    shift 2
    # shellcheck disable=SC2086  # a word or none
    run "$name" 60 kernel_bench --device "$device" --gpu-kernels $phases --megabytes "$megabytes" "$@"
}

# Measure the copy at three sizes; each row has the speed of the copy beside that of a scan. If the speed does not grow
# from one size to the next, the cost of a launch is negligible.
step_copy() {
    for size in $(if [ -n "$quick" ]; then echo 1; else echo 64 256 1024; fi); do
        measure "copy: $size MiB" "$size" --rounds 5 --only 'rows of 1Ki, int32'
    done
}

bench() { # bench CASE ARGUMENT ...
    scan=$1
    shift
    measure "bench: $scan" 1024 --rounds 3 --only "$scan" "$@"
}

# One long row is measured with integers only: one work-item sums a whole line of floats, which would take minutes.
step_bench() {
    if [ -n "$quick" ]; then
        measure 'bench: one row, int32' 1 --rounds 3 --only 'one row, int32' --lookback both
        return
    fi
    bench 'rows of 1Ki, int32'
    bench 'one row, int32' --lookback both
    bench 'rows of 1Mi, int32' --lookback both
    for layout in 'columns of 1Ki' 'rows of 64' 'rows of 1001' 'columns of 3' 'transposed input, rows'; do
        bench "$layout, int32"
    done
    measure 'bench: rows of 1Ki, float32' 1024 --rounds 3 --shape 262144,1024 --axis 1
    measure 'bench: columns of 64Ki, float32' 1024 --rounds 3 --shape 4096,65536 --axis 0
    for dtype in int8 int64; do
        bench "rows of 1Ki, $dtype"
        bench "one row, $dtype" --lookback both
        bench "columns of 1Ki, $dtype"
    done
    for dtype in float64 float16; do
        bench "rows of 1Ki, $dtype"
    done
}

step_service() {
    reserve=0
    mkdir -p "$work/answers"
    run 'service: answers' 240 sh "$here/lease.sh" answer "$platform" "$work/answers"
    run 'service: comparison' 20 sh "$here/lease.sh" compare "$work/answers"
}

# Find the device's line "N: NAME, PLATFORM, driver VERSION"; both names may contain commas. False: there is none.
find_device() {
    list=$(timeout -k 10 60 test_corpus --list 2>&1) || return 1
    if [ -n "$device" ]; then
        line=$(printf '%s\n' "$list" | grep "^$device: ")
    else
        line=$(printf '%s\n' "$list" | grep -v ', \(Portable Computing Language\|Tally\), driver ' | head -n 1)
    fi
    [ -n "$line" ]
}

choose_device() {
    find_device || { find_driver && find_device; } || die "there is no such device, --device chooses one of: $list"
    device=${line%%:*}
    platform=${line%, driver *}
    platform=${platform##*, }
}

measure_all() {
    quick='' device='' seconds=1500 out=$here/results
    while [ $# -gt 0 ]; do
        case $1 in
        --quick) quick=yes ;;
        --device | --seconds | --out)
            [ $# -gt 1 ] || die "$1 needs a value"
            case $1 in
            --device) device=$2 ;;
            --seconds) seconds=$2 ;;
            *) out=$2 ;;
            esac
            shift
            ;;
        device | kernels | lookback | copy | bench | service) break ;;
        *) die "unknown argument '$1'; the top of this file describes the arguments" ;;
        esac
        shift
    done
    [ $# -gt 0 ] || set -- device kernels lookback copy bench service
    # The steps before `service` end early enough to give `service` a sixth of the time.
    case "$*" in
    *' service') reserve=$((seconds / 6)) ;;
    *) reserve=0 ;;
    esac
    failed=0 commands=0
    mkdir -p "$out" || exit 1
    figures=$out/figures.txt log=$work/log
    PATH=$here/bin:$PATH
    use_packed_libraries "$here"
    # NVIDIA's compiler needs most of a minute for all programs; without a cache every command would compile them again.
    export CUDA_CACHE_PATH="${CUDA_CACHE_PATH:-$here/cache}"
    choose_device
    phases=$(! kernel_bench --phases --list >/dev/null 2>&1 || echo --phases)
    printf 'Tally %s on %s%s\n' "$(cat "$here/commit")" "$line" "${quick:+ (quick: the speeds mean nothing)}" |
        tee "$figures"
    [ "$device" = 0 ] || echo "'every program builds' and 'trials' run on device 0" | tee -a "$figures"
    deadline=$(($(date +%s) + seconds))
    for step in "$@"; do
        "step_$step"
    done
    printf '%d of %d commands succeeded in %d s; all figures are in %s\n' $((commands - failed)) "$commands" \
        $(($(date +%s) - deadline + seconds)) "$figures" | tee -a "$figures"
    [ "$failed" -eq 0 ]
}

server=''
work=$(mktemp -d) || exit 1
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 143' INT TERM
case ${1:-} in
pack)
    [ $# -eq 2 ] || die "usage: lease.sh pack FOLDER"
    pack "$2"
    ;;
answer) answer "$2" "$3" ;;
compare) compare "$2" ;;
machine) machine ;;
*) measure_all "$@" ;;
esac
