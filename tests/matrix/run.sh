#!/bin/sh
# Run the determinism corpus with every OpenCL runtime and setting available on this machine:
#
#   tests/matrix/run.sh [--quick]
#
# On PoCL: the generic kernel of compiling devices with one thread, with all threads and with each work-group method,
# and the GPU kernels, with 32 and 64-bit offsets. Then Intel's CPU runtime (from the Python package index, into
# build/matrix-venv), every other device that the system's ICD loader finds, and Oclgrind (tests/oclgrind/run.sh; not
# with --quick). Each run compares every output with the oracle byte for byte, so all runs that pass agree. Prints one
# row per run; the last line is "N passed, N failed".
cd "$(dirname "$0")/../.." || exit 1
amount=${1:---all}
name=matrix
. tests/lib/rows.sh
program=$build/tests/kernels/test_corpus
${MAKE:-make} --no-print-directory -s "$program"

# run NAME [VARIABLE=VALUE ...] -- [argument ...]: run the corpus on device 1. This is the first device of the named
# driver; device 0 is Tally's own.
run() {
    name=$1
    shift
    settings=''
    while [ "$1" != -- ]; do
        settings="$settings $1"
        shift
    done
    shift
    log=$(log_of "$name")
    result=DIFFERENT
    # shellcheck disable=SC2086  # words: the settings
    if env $settings timeout -k 10 3600 "$program" --device 1 "$@" "$amount" >"$log" 2>&1; then
        result=same
    fi
    row "$name" "$result" "$log"
}

pocl=''
for icd in /etc/OpenCL/vendors/pocl*.icd; do
    [ -e "$icd" ] && pocl=$icd
done
if [ -n "$pocl" ]; then
    export POCL_CACHE_DIR="$PWD/build/pocl-cache"
    run "PoCL, all threads" "OCL_ICD_VENDORS=$pocl" --
    run "PoCL, 1 thread" "OCL_ICD_VENDORS=$pocl" POCL_MAX_PTHREAD_COUNT=1 POCL_CPU_MAX_CU_COUNT=1 --
    run "PoCL, 64 threads" "OCL_ICD_VENDORS=$pocl" POCL_MAX_PTHREAD_COUNT=64 --
    for method in loopvec loops repl; do
        run "PoCL, work-group method $method" "OCL_ICD_VENDORS=$pocl" "POCL_WORK_GROUP_METHOD=$method" --
    done
    run "PoCL, 64-bit offsets" "OCL_ICD_VENDORS=$pocl" -- --wide-index
    run "PoCL, GPU kernels, 64-bit offsets" "OCL_ICD_VENDORS=$pocl" -- --gpu-kernels --wide-index
    run "PoCL, GPU kernels" "OCL_ICD_VENDORS=$pocl" -- --gpu-kernels
    run "PoCL, GPU kernels, look-back" "OCL_ICD_VENDORS=$pocl" -- --lookback
    run "PoCL, GPU kernels, hostile look-back" "OCL_ICD_VENDORS=$pocl" -- --hostile-lookback
    run "PoCL, GPU kernels, look-back, 1 thread" "OCL_ICD_VENDORS=$pocl" POCL_MAX_PTHREAD_COUNT=1 POCL_CPU_MAX_CU_COUNT=1 -- --lookback
    run "PoCL, GPU kernels, 1 thread" "OCL_ICD_VENDORS=$pocl" POCL_MAX_PTHREAD_COUNT=1 POCL_CPU_MAX_CU_COUNT=1 -- --gpu-kernels
fi

venv=$PWD/build/matrix-venv
if [ ! -e "$venv/lib/libintelocl.so" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check -r tests/matrix/requirements.txt
fi
vendors=$PWD/$build/intel-icd
mkdir -p "$vendors" "$PWD/build/matrix-kernels"
printf '%s\n' "$venv/lib/libintelocl.so" >"$vendors/intel.icd"
run "Intel CPU runtime" "OCL_ICD_VENDORS=$vendors" "LD_LIBRARY_PATH=$venv/lib" --
run "Intel CPU runtime, GPU kernels" "OCL_ICD_VENDORS=$vendors" "LD_LIBRARY_PATH=$venv/lib" -- --gpu-kernels
run "Intel CPU runtime, GPU kernels, look-back" "OCL_ICD_VENDORS=$vendors" "LD_LIBRARY_PATH=$venv/lib" -- --lookback

for icd in /etc/OpenCL/vendors/*.icd; do
    case $icd in
    *pocl* | *'*'*) ;;
    *) run "$(basename "$icd" .icd), every device" "OCL_ICD_VENDORS=$icd" -- --device all ;;
    esac
done

if [ "$amount" != --quick ]; then
    log=$logs/oclgrind.log
    result=REPORTS
    if sh tests/oclgrind/run.sh >"$log" 2>&1; then
        result=same
    fi
    row "Oclgrind" "$result" "$log"
fi
rows_end
