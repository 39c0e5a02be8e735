# Tally: `make run` starts the service, `make test` runs all tests; both first install missing packages.
# Each mode has a separate build tree: MODE=release (default), debug, asan, tsan, trips; host-asan and host-msan
# (tests/sanitizers/kernels.sh).
MODE    ?= release
CC      ?= cc
CXX     ?= c++
PREFIX  ?= /usr/local
DESTDIR ?=
VERSION := 0.1.0
# The system that the compiler produces code for, for example with CC=aarch64-linux-gnu-gcc (docs/running.md).
TARGET  := $(shell $(CC) -dumpmachine 2>/dev/null)
MACHINE := $(firstword $(subst -, ,$(TARGET)))

B   := build/$(MODE)
BIN := $(if $(filter release,$(MODE)),build/bin,$(B)/bin)
LIB := $(if $(filter release,$(MODE)),build/lib,$(B)/lib)
OBJCOPY ?= objcopy

WARN  := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wdouble-promotion -Wfloat-equal \
         -Wcast-align -Wcast-qual -Wpointer-arith -Wwrite-strings -Wundef -Wvla -Wformat=2 -Wimplicit-fallthrough \
         -Wswitch-enum -Wnull-dereference -Wredundant-decls
CWARN := -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition
HARD  := -fstack-protector-strong -fstack-clash-protection $(if $(filter x86_64,$(MACHINE)),-fcf-protection) -fPIC
# The compiler must not fuse a multiplication with an addition, which would change bits of results.
EXACT := -ffp-contract=off
OPT_release := -O2 -g -D_FORTIFY_SOURCE=3
OPT_debug   := -Og -g3
OPT_asan    := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
OPT_fuzz    := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
OPT_tsan    := -O1 -g -fsanitize=thread -fno-omit-frame-pointer
# Every function of server/ reports its calls and returns to tests/trips/log_calls.c.
OPT_trips   := -O1 -g -finstrument-functions -finstrument-functions-exclude-file-list=.h,proto/,kernels/
# Flags of the modes in which the kernels run under sanitizers (tests/sanitizers/kernels.sh). These modes have no ICD
# loader, and support barriers.
HOST_host-asan := -O1 -g -fsanitize=address,alignment,bounds,bool,signed-integer-overflow,integer-divide-by-zero \
                  -fno-sanitize-recover=all
HOST_host-msan := -O1 -g -fsanitize=memory
OPT_host-asan  := $(HOST_host-asan) -fno-omit-frame-pointer -include tests/sanitizers/direct.h
OPT_host-msan  := $(HOST_host-msan) -fno-omit-frame-pointer -include tests/sanitizers/direct.h
WERROR  ?=
DEFS    := -D_GNU_SOURCE -DTALLY_VERSION='"$(VERSION)"' -I. -DCL_TARGET_OPENCL_VERSION=120
CFLAGS_ALL   = -std=c17 $(OPT_$(MODE)) $(HARD) $(EXACT) $(WARN) $(CWARN) $(WERROR) $(DEFS) $(CFLAGS_$(firstword $(subst /, ,$<))) -MMD -MP $(CFLAGS)
CXXFLAGS_ALL = -std=c++17 $(OPT_$(MODE)) $(HARD) $(EXACT) -Wall -Wextra $(WERROR) $(DEFS) -fno-exceptions -MMD -MP $(CXXFLAGS)
LDFLAGS_ALL  = $(OPT_$(MODE)) -pie -Wl,-z,relro,-z,now $(LDFLAGS)

# Libraries that each layer links with.
LIBS_kernels := $(if $(HOST_$(MODE)),,-lOpenCL) -lpthread -lm
LIBS_proto   := -ljansson -lz -lisal -lm
LIBS_server  := -lmicrohttpd -lgnutls -luv
LIBS_client  := -lcurl -ljansson -lpthread

objs = $(patsubst %,$(B)/%.o,$(basename $(1)))
PROTO_SRC   := $(wildcard proto/*.c proto/json/*.c) $(wildcard proto/json/*.cc)
DRIVER_SRC  := $(filter-out %/cpu_export.c $(if $(HOST_$(MODE)),%/cpu_group.c),$(wildcard kernels/cpu/cpu_*.c)) \
               $(if $(HOST_$(MODE)),tests/sanitizers/fibers.c)
KERNEL_SRC  := $(wildcard kernels/*.c) $(DRIVER_SRC) kernels/embed.S
SERVER_SRC  := $(filter-out server/main.c server/http/list_routes.c server/base/make_manual.c,$(wildcard server/*.c server/*/*.c))
CLIENT_SRC  := $(wildcard client/*.c)
CLI_SRC     := $(wildcard client/cli/*.c)
TESTLIB_SRC := $(wildcard tests/lib/*.c)
KTESTLIB_SRC := $(filter-out tests/lib/dialect_probe.c,$(TESTLIB_SRC))
UNIT_SRC    := $(wildcard tests/unit/test_*.c)
KTEST_SRC   := $(wildcard tests/kernels/test_*.c)
# The kernels for tests and the benchmark, with the test aids of kernels/testing.h.
TESTING_OBJ = $(patsubst %.c,$(B)/testing/%.o,$(wildcard kernels/*.c)) $(call objs,$(DRIVER_SRC))
# The only files of proto that kernels/ and its tests need; apart from libOpenCL they link no library.
KERNEL_PROTO_SRC := proto/status.c proto/dtype.c proto/text.c proto/parallel.c

# The kernels for processors, compiled ahead by clang (kernels/cpu/kernels.mk): for this machine's level, or, for
# `make install` and `make image`, for every level. All build trees share them, except those with sanitizers in
# the kernels.
ALL_LEVELS := $(if $(filter x86_64,$(MACHINE)),v4_512 v4 v3 v2,baseline)
ifndef LEVELS
LEVELS := $(if $(HOST_$(MODE)),baseline,$(if $(filter x86_64,$(MACHINE)),$(shell sh kernels/cpu/level.sh),baseline))
endif
CLANG ?= clang --target=$(TARGET)
empty :=
AHEAD_DIR := build/ahead$(if $(HOST_$(MODE)),-$(MODE))
AHEAD     := $(AHEAD_DIR)/$(subst $(empty) ,-,$(LEVELS)).o
AHEAD_SRC := $(wildcard kernels/cl/*.cl) $(wildcard kernels/cpu/*.h) kernels/cpu/kernels.mk
LIST_SRC  := kernels/cpu/list_kernels.c kernels/embed.S \
             $(addprefix kernels/,variants.c split.c plan.c program.c share.c opencl.c) $(KERNEL_PROTO_SRC)
# Make an object of the kernels in a list: $(call ahead,LIST,DIR,OUT,VARIABLES).
ahead = +@$(MAKE) --no-print-directory -f kernels/cpu/kernels.mk LIST=$(1) DIR=$(2) OUT=$(3) LEVELS='$(LEVELS)' \
        CLANG='$(CLANG)' FLAGS='$(HOST_$(MODE))' $(4)

.PHONY: all run test lint asan tsan fuzz bench bench-quick image image-test install clean deps help unit-tests kernel-tests
all: $(BIN)/tallyd $(BIN)/tally build/man/tallyd.8 ## Build tallyd and tally in build/bin

build/ahead/list_kernels: $(LIST_SRC) $(wildcard kernels/*.h kernels/cl/*.cl)
	@mkdir -p $(@D)
	cc -std=c17 -O1 $(DEFS) -DTALLY_TESTING -ffunction-sections -Wl,--gc-sections -o $@ $(LIST_SRC) -lOpenCL -lpthread
$(AHEAD_DIR)/list: build/ahead/list_kernels
	@mkdir -p $(@D)
	@$< $(if $(HOST_$(MODE)),--all) >$@.all
	@awk '!seen[$$0]++' $@.all >$@.new
	@cmp -s $@.new $@ || { rm -f $(AHEAD_DIR)/*/*.[od] && cp $@.new $@; }
$(AHEAD): $(AHEAD_DIR)/list $(AHEAD_SRC)
	$(call ahead,$(AHEAD_DIR)/list,$(AHEAD_DIR),$@)

$(BIN)/tallyd: $(call objs,server/main.c $(SERVER_SRC) $(KERNEL_SRC) $(PROTO_SRC)) $(AHEAD)
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_server) $(LIBS_proto) $(LIBS_kernels)

# A build that also runs on other machines: it has the kernels for every level of processor.
.PHONY: all-levels
all-levels: ## Build for every level of processor: also the library and the OpenCL driver
	@$(MAKE) --no-print-directory LEVELS='$(ALL_LEVELS)' all client opencl

.PHONY: opencl
opencl: $(LIB)/OpenCL/vendors/tally.icd ## Build the OpenCL driver for other programs
# The OpenCL driver for other programs: a shared object, and the file through which ICD loaders find it.
$(LIB)/libtally_opencl.so: $(call objs,$(wildcard kernels/cpu/cpu_*.c) kernels/machine.c) $(AHEAD) kernels/cpu/cpu_export.map
	@mkdir -p $(@D)
	$(CC) $(OPT_$(MODE)) -shared -Wl,-soname,$(@F) -Wl,--version-script=kernels/cpu/cpu_export.map -Wl,-z,relro,-z,now \
	    $(LDFLAGS) -o $@ $(filter %.o,$^) -lpthread
$(LIB)/OpenCL/vendors/tally.icd: $(LIB)/libtally_opencl.so
	@mkdir -p $(@D)
	echo "$(abspath $<)" >$@

# The service, in which TALLY_TEST_CL_FAULT causes faults of OpenCL calls (tests/lib/cl_fault.h).
$(B)/tests/tallyd_faults: $(call objs,server/main.c $(SERVER_SRC) $(PROTO_SRC) kernels/embed.S tests/lib/cl_fault.c tests/lib/device_aids.c) $(TESTING_OBJ) $(AHEAD)
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_server) $(LIBS_proto) $(LIBS_kernels)

# An archive, so that a unit test links only the objects that it uses.
$(B)/libunit.a: $(call objs,$(TESTLIB_SRC) $(SERVER_SRC) $(KERNEL_SRC) $(PROTO_SRC)) $(AHEAD)
	@mkdir -p $(@D)
	@rm -f $@
	$(AR) rcs $@ $^

$(B)/tests/unit/%: $(B)/tests/unit/%.o $(B)/libunit.a
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS_ALL) -o $@ $^ -lcmocka $(LIBS_server) $(LIBS_proto) $(LIBS_kernels)

# The test checks the state of a socket when listen() is called.
$(B)/tests/unit/test_listen: LDFLAGS += -Wl,--wrap=listen,--wrap=bind,--wrap=getaddrinfo

# The test simulates a machine with hundreds of cores, or with little memory.
$(B)/tests/unit/test_config: LDFLAGS += -Wl,--wrap=machine_cores,--wrap=machine_available_bytes

# The test simulates a lack of memory for parsing a URL, and a name with several addresses.
$(B)/tests/unit/test_http_post: LDFLAGS += -Wl,--wrap=regexec,--wrap=getaddrinfo

# The test replaces the figures of all modules by distinct numbers.
$(B)/tests/unit/test_pages: LDFLAGS += -Wl,--wrap=queue_stats,--wrap=admission_stats \
    -Wl,--wrap=memory_stats,--wrap=work_line,--wrap=log_dropped,--wrap=machine_usage_sampled \
    -Wl,--wrap=device_pool_count,--wrap=device_pool_stats

# The test simulates a resolver that hangs.
$(B)/tests/unit/test_trace: LDFLAGS += -Wl,--wrap=getaddrinfo

# The test counts which thread unmaps a slab, and simulates slabs that cannot grow, larger pages, and pinned slabs
# without a GPU.
$(B)/tests/unit/test_memory: LDFLAGS += -Wl,--wrap=slab_destroy,--wrap=slab_extend,--wrap=sysconf,--wrap=madvise \
    -Wl,--wrap=slab_can_pin,--wrap=slab_create_pinned,--wrap=slab_is_pinned,--wrap=slab_pinned_bytes

# The test simulates a system that refuses memory for slabs.
$(B)/tests/unit/test_infer_memory: LDFLAGS += -Wl,--wrap=slab_create

# The test simulates larger pages.
$(B)/tests/unit/test_shm_map: LDFLAGS += -Wl,--wrap=sysconf,--wrap=mmap

# The test simulates shared memory without a free page.
$(B)/tests/unit/test_shm: LDFLAGS += -Wl,--wrap=pwrite

# The test controls the clock.
$(B)/tests/unit/test_cursor: LDFLAGS += -Wl,--wrap=clock_gettime

# The test suppresses the heartbeat, records for which daemon texts are encoded and how many connections wait, and
# simulates daemons that do not start and descriptors that libuv cannot watch.
$(B)/tests/unit/test_http_loop: LDFLAGS += -Wl,--wrap=uv_timer_start \
    -Wl,--wrap=infer_encode,--wrap=http_daemon_returned,--wrap=http_daemon_served,--wrap=uv_poll_init \
    -Wl,--wrap=MHD_start_daemon,--wrap=places_ask

# Tests in which the Nth allocation fails (tests/unit/failing_memory.h).
$(B)/tests/unit/test_codec_alloc $(B)/tests/unit/test_dialect_memory: \
    LDFLAGS += -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=free,--wrap=arena_take

$(B)/tests/kernels/%: $(B)/tests/kernels/%.o $(call objs,$(KTESTLIB_SRC) kernels/embed.S $(KERNEL_PROTO_SRC)) $(TESTING_OBJ) $(AHEAD)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_kernels)

# The test records fills instead of executing them.
$(B)/tests/kernels/test_fill: LDFLAGS += -Wl,--wrap=clEnqueueFillBuffer

# A driver of a simulated GPU that is slow, refuses large fills and can be lost; PoCL's processor computes
# (tests/gpu/slow_gpu.c).
SLOW_GPU := $(B)/tests/slow_gpu/slow_gpu.icd
$(B)/tests/libslow_gpu.so: tests/gpu/slow_gpu.c tests/gpu/slow_gpu.h
	@mkdir -p $(@D)
	$(CC) -std=c17 -O2 -g $(WARN) $(WERROR) $(DEFS) -Wno-cast-align -fPIC -shared -Wl,-Bsymbolic -o $@ $< -ldl -lpthread
$(SLOW_GPU): $(B)/tests/libslow_gpu.so
	@mkdir -p $(@D)
	echo "$(abspath $<)" >$@
$(B)/tests/kernels/test_transfers.o: DEFS += -DSLOW_GPU='"$(abspath $(B))/tests"'
$(B)/tests/kernels/test_transfers: | $(SLOW_GPU)

# The arithmetic of exact sums, tested separately.
$(B)/tests/kernels/exact.list: Makefile
	@mkdir -p $(@D)
	@for type in f16 bf16 f32 f64; do \
	    options="-DELEM_$$(echo $$type | tr a-z A-Z) -DINDEX=ulong"; \
	    for kernel in '= exact_lines' 'rows_= exact_block exact_total exact_strip exact_rows' \
	        'columns_= exact_strip exact_columns' 'tiles_= exact_strip exact_lanes tiles'; do \
	        way=$${kernel%%=*} && sources="$${kernel#*=}" && name=scan_exact_$$way && \
	        kernels="$${name%_},$$name$$type,pppp8488" && \
	        if [ -n "$$way" ]; then \
	            sources=" vector exact_vector transpose partition$$sources" && \
	            kernels="$$kernels total_exact_$${way%_},total_exact_$$way$$type,pppp8488"; \
	        fi && \
	        printf '%s%s\t%s\texact table%s launch\t%s\n' \
	            $$name $$type "$$options" "$$sources" "$$kernels"; \
	    done; \
	done >$@
$(B)/tests/kernels/exact.o: $(B)/tests/kernels/exact.list $(AHEAD_SRC)
	$(call ahead,$<,$(@:.o=),$@)
$(B)/tests/kernels/test_exact.o: $(addprefix kernels/cl/,exact.cl table.cl exact_lines.cl launch.cl)
$(B)/tests/kernels/test_exact: $(B)/tests/kernels/test_exact.o \
    $(call objs,$(KTESTLIB_SRC) kernels/embed.S $(KERNEL_PROTO_SRC)) $(TESTING_OBJ) $(B)/tests/kernels/exact.o
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_kernels)

# Faults that the sanitizers must find: tests/sanitizers/kernels.sh.
PLANTED := read_beyond write_before index_too_far overflow misaligned decide_by_unwritten result_of_unwritten skip_a_barrier
$(B)/tests/sanitizers/planted.o.list: Makefile
	@mkdir -p $(@D)
	@printf 'planted\t\ttests/sanitizers/planted.cl\t%s\n' '$(foreach name,$(PLANTED),$(name),$(name),p)' >$@
$(B)/tests/sanitizers/planted_kernels.o: $(B)/tests/sanitizers/planted.o.list tests/sanitizers/planted.cl $(AHEAD_SRC)
	$(call ahead,$<,$(@:.o=),$@)
$(B)/tests/sanitizers/planted: $(call objs,tests/sanitizers/planted.c $(DRIVER_SRC) kernels/machine.c) $(B)/tests/sanitizers/planted_kernels.o
	$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_kernels)

# Compares the speed of the kernels with that of a copy: build/bin/kernel_bench --quick.
.PHONY: kernel-bench
kernel-bench: $(BIN)/kernel_bench ## Build build/bin/kernel_bench, which compares kernels with a copy
BENCH_SRC := $(addprefix tests/bench/,bench_cases.c bench_measure.c device_copy.c)
$(BIN)/kernel_bench: $(call objs,tests/bench/kernel_bench.c $(BENCH_SRC) tests/lib/cl_fault.c tests/lib/device_aids.c kernels/embed.S $(KERNEL_PROTO_SRC)) $(TESTING_OBJ) $(B)/tests/bench/ahead.o
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_kernels)

$(B)/tests/bench/device_copy.o: tests/bench/copy.cl
# The kernels, and the kernel that copies memory: the benchmark compares scans with it.
$(B)/tests/bench/ahead.o: $(AHEAD) tests/bench/copy.cl
	@mkdir -p $(@D)
	@{ cat $(AHEAD_DIR)/list && printf 'copy\t\ttests/bench/copy.cl\tcopy_cpu,copy_cpu,pp8\n'; } >$(@:.o=.list)
	$(call ahead,$(@:.o=.list),$(AHEAD_DIR),$@)

$(BIN)/scan_turns: $(call objs,tests/bench/scan_turns.c tests/bench/bench_cases.c $(KERNEL_SRC) $(KERNEL_PROTO_SRC)) $(AHEAD)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_kernels)

# The host code of launches, for the GPU that tests/gpu/simulate.py interprets. The program contains no kernels that
# were compiled ahead, and no code that needs them.
$(B)/tests/gpu/launches: tests/gpu/launches.c $(wildcard kernels/*.c kernels/*.h kernels/cl/*.cl) kernels/embed.S \
    tests/lib/cl_fault.c tests/lib/device_aids.c $(KERNEL_PROTO_SRC)
	@mkdir -p $(@D)
	$(CC) -std=c17 -O1 $(DEFS) -DTALLY_TESTING -ffunction-sections -Wl,--gc-sections -o $@ \
	    $(filter %.c %.S,$^) -lOpenCL -lpthread

# Micro-benchmarks of proto: build/release/tests/bench/json_bench.
$(B)/tests/bench/%_bench: $(B)/tests/bench/%_bench.o $(call objs,$(PROTO_SRC))
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_proto)

# Compares number texts with charconv; --all runs for half an hour.
$(B)/tests/accuracy/number_text: $(B)/tests/accuracy/number_text.o $(call objs,$(PROTO_SRC))
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_proto)

# Libraries to preload: they count calls of a process (tests/integration/test_small_requests.py), fail an allocation
# (test_no_memory.py), delay threads at random, and move the clock.
PRELOADED := $(patsubst %,$(B)/tests/lib%.so,count_calls fail_memory hold_up move_clock)
$(PRELOADED): $(B)/tests/lib%.so: tests/integration/support/%.c
	@mkdir -p $(@D)
	$(CC) -std=c17 -O2 $(WARN) -Wno-redundant-decls $(WERROR) -D_GNU_SOURCE -fPIC -shared -o $@ $<

# For tests/oclgrind/run.sh.
$(B)/tests/libdetours.so: tests/oclgrind/detours.c
	@mkdir -p $(@D)
	$(CC) -std=c17 -O2 $(WARN) -Wno-redundant-decls $(WERROR) -D_GNU_SOURCE -fPIC -shared -o $@ $<

# Counts how often a request enters another file of server/: make trips ARGS='--list'.
$(B)/tests/liblog_calls.so: tests/trips/log_calls.c
	@mkdir -p $(@D)
	$(CC) -std=c17 -O2 $(WARN) $(WERROR) -D_GNU_SOURCE -fPIC -shared -o $@ $<
.PHONY: trips
trips: deps-test ## Count the calls between files of server/ for each request
	@$(MAKE) --no-print-directory MODE=trips build/trips/bin/tallyd build/trips/tests/liblog_calls.so
	@build/venv/bin/python tests/trips/count_trips.py $(ARGS)

# Runs each fuzz target with its corpus for FUZZ_SECONDS; inputs that crash are stored in build/fuzz/found/.
FUZZ_SECONDS ?= 30
FUZZ_TIMEOUT := 10
# No leak detection for the wire fuzzer: its threads may hold memory at the end of an input. Memory that is never
# freed exceeds the fuzzer's limit sooner or later.
fuzz-wire corpus-wire: FUZZ_TIMEOUT := 60
fuzz-wire corpus-wire: FUZZ_ARGS    := -detect_leaks=0
FUZZ_NAMES   := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_OBJ     := $(call objs,$(PROTO_SRC) kernels/plan.c tests/lib/oracle.c tests/lib/exact_oracle.c)
$(B)/tests/fuzz/fuzz_%: $(B)/tests/fuzz/fuzz_%.o $(FUZZ_OBJ)
	$(CXX) $(subst fuzzer-no-link,fuzzer,$(LDFLAGS_ALL)) -o $@ $^ $(LIBS_proto)
# These targets link the objects of the service that they need.
$(addprefix $(B)/tests/fuzz/fuzz_,tokens client_chain): %: %.o $(B)/libserver.a $(FUZZ_OBJ)
	$(CXX) $(subst fuzzer-no-link,fuzzer,$(LDFLAGS_ALL)) -o $@ $^ $(LIBS_server) $(LIBS_proto)
$(B)/libserver.a: $(call objs,$(SERVER_SRC))
	@rm -f $@
	ar rcs $@ $^
# The wire fuzzer runs the whole service, with a clock that inputs can move, and without an OpenCL device.
WIRE_SRC   := $(wildcard tests/fuzz/wire_*.c)
WIRE_WRAPS := -Wl,--wrap=clock_gettime,--wrap=pthread_cond_timedwait,--wrap=uv_timer_start
$(B)/tests/fuzz/fuzz_wire: $(call objs,tests/fuzz/fuzz_wire.c $(WIRE_SRC) $(SERVER_SRC) $(KERNEL_SRC) $(PROTO_SRC)) $(AHEAD)
	$(CXX) $(subst fuzzer-no-link,fuzzer,$(LDFLAGS_ALL)) $(WIRE_WRAPS) -o $@ $^ $(LIBS_server) $(LIBS_proto) $(LIBS_kernels)
$(B)/tests/unit/test_fuzz_wire: $(B)/tests/unit/test_fuzz_wire.o $(call objs,$(WIRE_SRC)) $(B)/libunit.a
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS_ALL) $(WIRE_WRAPS) -o $@ $^ -lcmocka $(LIBS_server) $(LIBS_proto) $(LIBS_kernels)
fuzz: deps deps-sanitizers ## Run each fuzz target for FUZZ_SECONDS (30)
	@$(MAKE) --no-print-directory MODE=fuzz CC=clang CXX=clang++ $(FUZZ_NAMES:%=fuzz-%)
fuzz-%: $(B)/tests/fuzz/fuzz_%
	@mkdir -p $(B)/corpus/$* $(B)/found
	$< -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -timeout=$(FUZZ_TIMEOUT) -rss_limit_mb=2048 -print_final_stats=1 $(FUZZ_ARGS) \
	    -artifact_prefix=$(B)/found/$*- $(B)/corpus/$* tests/fuzz/corpus/$* >$(B)/found/$*.log 2>&1; \
	    status=$$?; tail -n 12 $(B)/found/$*.log; exit $$status
# Runs each input of the corpus once, and no others.
corpus-%: $(B)/tests/fuzz/fuzz_%
	@$< -runs=0 -timeout=$(FUZZ_TIMEOUT) $(FUZZ_ARGS) tests/fuzz/corpus/$* >$(B)/corpus-$*.log 2>&1 || { cat $(B)/corpus-$*.log; exit 1; }

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(if $(filter tests/%,$<),-DTALLY_TESTING -Wno-conversion -Wno-sign-conversion -Wno-float-equal -Wno-double-promotion -Wno-cast-align) -c -o $@ $<
$(B)/testing/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -DTALLY_TESTING -c -o $@ $<
$(B)/%.o: %.cc
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS_ALL) -c -o $@ $<

# The OpenAPI document, built from the table of routes and the fragments next to the code that they describe.
OPENAPI   := build/openapi
FRAGMENTS := $(wildcard proto/*.openapi.json server/pages/*.openapi.json)
MAKER_SRC := proto/openapi/make_openapi.c proto/models.c proto/dtype.c proto/status.c proto/text.c
$(OPENAPI)/list_routes: server/http/list_routes.c server/http/route_table.h server/http/routes.h server/pages/page_table.h
	@mkdir -p $(@D)
	cc -std=c17 $(DEFS) -o $@ $<
$(OPENAPI)/make_openapi: $(MAKER_SRC) proto/models.h proto/dtype.h
	@mkdir -p $(@D)
	cc -std=c17 $(DEFS) -o $@ $(MAKER_SRC) -ljansson
$(OPENAPI)/openapi.json: $(OPENAPI)/list_routes $(OPENAPI)/make_openapi proto/openapi/service.json $(FRAGMENTS)
	$(OPENAPI)/list_routes >$(@D)/routes
	$(OPENAPI)/make_openapi $(@D)/routes proto/openapi/service.json $(FRAGMENTS) >$@.new
	@mv $@.new $@
$(B)/server/http/routes.o: $(OPENAPI)/openapi.json
# The console's page without comments, and values for its HTTP header: hashes of its style, its script, and the page.
build/console/etag: server/pages/console.html server/pages/console.sh
	@mkdir -p $(@D)
	sh server/pages/console.sh $< $(@D)
$(B)/server/pages/page.o: build/console/etag
# tallyd(8), generated by a program that runs on the build machine.
MANUAL_SRC := server/base/make_manual.c server/base/config.c kernels/machine.c \
              $(addprefix proto/,byte_size.c digits.c status.c text.c)
build/man/make_manual: $(MANUAL_SRC) server/base/config.h server/base/config_table.h server/base/tallyd.8 Makefile
	@mkdir -p $(@D)
	cc -std=c17 $(DEFS) -o $@ $(MANUAL_SRC)
build/man/tallyd.8: build/man/make_manual
	$< >$@.new
	@mv $@.new $@
$(B)/client/cli/cmd_completion.o: $(wildcard client/cli/completion.*)
$(B)/kernels/embed.o: kernels/embed.S $(wildcard kernels/cl/*.cl)
	@mkdir -p $(@D)
	$(CC) $(DEFS) -c -o $@ $<

deps: ## Install what a build needs
	@sh deploy/install-deps.sh run
deps-%:
	@sh deploy/install-deps.sh $*

run: deps ## Install what is missing, build, and serve on 127.0.0.1:8000
	@$(MAKE) --no-print-directory -j"$$(nproc)" all
	$(BIN)/tallyd $(ARGS)

# The client: libtally exports the tally_* names of client/tally.map and nothing else.
SONAME := libtally.so.0
# Files of proto that are also in the library.
CLIENT_PROTO_SRC := proto/dtype.c proto/text.c
CLIENT_OBJ := $(call objs,$(CLIENT_SRC) $(CLIENT_PROTO_SRC))
CFLAGS_client := -fvisibility=hidden
.PHONY: client libtally.a libtally.so client-tests
client: libtally.a libtally.so $(BIN)/tally ## Build libtally and tally
libtally.a libtally.so: %: $(LIB)/%

$(LIB)/libtally.a: $(CLIENT_OBJ)
	@mkdir -p $(@D)
	$(LD) -r -o $(B)/client/libtally.o $^
	$(OBJCOPY) -w --keep-global-symbol='tally_*' $(B)/client/libtally.o
	rm -f $@ && $(AR) rcs $@ $(B)/client/libtally.o
$(LIB)/libtally.so: $(CLIENT_OBJ) client/tally.map
	@mkdir -p $(@D)
	$(CC) $(OPT_$(MODE)) -shared -Wl,-soname,$(SONAME) -Wl,--version-script=client/tally.map -Wl,-z,relro,-z,now \
	    $(LDFLAGS) -o $(@D)/$(SONAME) $(CLIENT_OBJ) $(LIBS_client)
	ln -sf $(SONAME) $@
# The command checks its input with the same code of proto as the service checks bodies.
CLI_PROTO_SRC := $(CLIENT_PROTO_SRC) $(addprefix proto/,byte_size.c content_guess.c digits.c json/cells.c json/measure.c json/number_text.cc json/tensor.c json/writer.c npy_header.c parallel.c status.c)
$(BIN)/tally: $(call objs,$(CLI_SRC) $(CLI_PROTO_SRC)) $(LIB)/libtally.a
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_client) -lcrypto -lm
$(B)/tests/client/%: $(B)/tests/client/%.o $(call objs,$(wildcard tests/client/lib/*.c) $(filter-out client/cli/main.c,$(CLI_SRC)) $(filter-out $(CLIENT_PROTO_SRC),$(CLI_PROTO_SRC))) $(CLIENT_OBJ)
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS_ALL) -o $@ $^ -lcmocka $(LIBS_client) -lcrypto -lz -lm
client-tests: client $(patsubst %.c,$(B)/%,$(wildcard tests/client/test_*.c))

# `make bench` compares the speed with peers from the Python package index; `make bench-quick` only with libmicrohttpd
# and with copies of memory.
$(BIN)/bare_mhd: $(B)/tests/bench/bare_mhd.o
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -o $@ $^ -lmicrohttpd -lpthread
.PHONY: bench-tools
bench-tools: $(BIN)/tallyd $(BIN)/bare_mhd $(BIN)/kernel_bench $(BIN)/scan_turns $(BIN)/load_client
bench: ## Compare the speed with peers, which come from the Python package index
	@VENV=build/bench-venv sh deploy/install-deps.sh bench
	@VENV=build/mlserver-venv sh deploy/install-deps.sh mlserver
	@$(MAKE) --no-print-directory bench-tools
	@build/bench-venv/bin/python tests/bench/run.py $(ARGS)
# Copies the results of the last run of each section from build/bench/ to the figures of this model of processor
# (docs/plots/figures-*.json), and writes tables and plots of docs/performance.md from those files.
# ARGS=--again does not copy results.
.PHONY: bench-page
bench-page: ## Write docs/performance.md from the last figures of make bench
	@python3 tests/bench/page.py $(ARGS)
bench-quick: deps-test ## Compare the speed with libmicrohttpd and memory alone
	@$(MAKE) --no-print-directory bench-tools
	@build/venv/bin/python tests/bench/run.py --quick $(ARGS)

# Pictures of the console for the documents.
.PHONY: console-pictures
console-pictures: deps-test ## Take the pictures of the console for the documents
	@$(MAKE) --no-print-directory $(BIN)/tallyd
	@build/venv/bin/python tests/console_pictures.py

# Sends a day's requests of every kind within minutes, and checks that memory does not grow:
# make soak ARGS='--requests 8640000 --rounds 10'.
.PHONY: soak
soak: deps-test ## Send millions of requests of every kind, and watch the memory
	@$(MAKE) --no-print-directory $(BIN)/tallyd
	@python3 tests/load/soak.py $(ARGS)

# Runs the client's tests with 20 GiB of data in half a GiB of memory, and with an endless pipe for a minute.
.PHONY: soak-client
soak-client: deps-test ## Run the tests of the client with 20 GiB and an endless pipe
	@TALLY_TEST_LONG=1 sh tests/client/run.sh

# Replaces certificates and tokens every second under load for a minute: make rotation ARGS='--seconds 600'.
.PHONY: rotation
rotation: deps-test ## Replace certificates and tokens every second under load
	@$(MAKE) --no-print-directory $(BIN)/tallyd
	@TALLYD=$(BIN)/tallyd build/venv/bin/python tests/load/rotation.py $(ARGS)

# Measures goodput at eight times the capacity, and fairness between clients: make overload ARGS='--only fairness'.
$(BIN)/load_client: $(call objs,$(wildcard tests/load/*.c))
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -o $@ $^ -lm
.PHONY: overload
overload: deps-test ## Measure goodput and fairness at eight times the capacity
	@$(MAKE) --no-print-directory $(BIN)/tallyd $(BIN)/load_client
	@python3 tests/load/overload.py $(ARGS)

# Restarts and kills three replicas behind HAProxy under load: make fleet ARGS='--rounds 10'. For root the replicas
# run in the file system of the image.
.PHONY: fleet
fleet: deps-test ## Restart and kill three replicas behind HAProxy under load
	@$(MAKE) --no-print-directory $(BIN)/tallyd
	@[ "$$(id -u)" != 0 ] || sh tests/fleet/root.sh build/fleet/root
	@build/venv/bin/python tests/fleet/play.py $$([ "$$(id -u)" != 0 ] || echo --root build/fleet/root) $(ARGS)

# The table of docs/sizing.md.
.PHONY: sizing
sizing: deps-test ## Measure the table of docs/sizing.md
	@$(MAKE) --no-print-directory $(BIN)/tallyd $(BIN)/load_client
	@build/venv/bin/python tests/fleet/sizing.py

# Writes tables and plots of docs/design/scale.md, from simulations with fixed seeds; ARGS=--check compares the
# simulation with measurements.
.PHONY: sim
sim: deps-test ## Simulate fleets, for docs/design/scale.md
	@build/venv/bin/python tests/sim/page.py $(ARGS)

# DESTDIR may contain a blank; PREFIX and LIBDIR may not, because they are written to files whose readers end a path at
# a blank.
D := $(DESTDIR)$(PREFIX)
LIBDIR ?= $(PREFIX)/lib
ifneq ($(word 2,$(PREFIX))$(word 2,$(LIBDIR)),)
$(error PREFIX or LIBDIR is a path with a blank, "$(PREFIX)", "$(LIBDIR)": pkg-config and systemd cannot read such a path)
endif
# The folder of the files that tell ICD loaders of OpenCL drivers.
VENDORS ?= $(if $(filter /usr /usr/local,$(PREFIX)),/etc,$(PREFIX)/etc)/OpenCL/vendors
install: ## Install under PREFIX (/usr/local), staged in DESTDIR
	@$(MAKE) --no-print-directory LEVELS='$(ALL_LEVELS)' install-built
# All documents that README.md links to directly or indirectly, and the files that they mention.
DOCUMENTS = $(shell find docs client/examples deploy/kubernetes deploy/monitoring deploy/dask -type f) $(wildcard *.md deploy/*.md) \
    $(addprefix deploy/,tallyd.env.example haproxy.cfg compose.yaml) LICENSE client/tally.h client/tally_directml.h client/python/README.md
# Every user may read the files that are created here, whatever the umask.
.PHONY: install-built
install-built: all client opencl
	install -d '$(D)/bin' '$(D)/include' '$(DESTDIR)$(LIBDIR)/pkgconfig' '$(D)/share/bash-completion/completions' '$(D)/share/zsh/site-functions' '$(D)/share/fish/vendor_completions.d'
	install -m755 $(BIN)/tallyd $(BIN)/tally '$(D)/bin'
	install -m644 client/tally.h client/tally_directml.h '$(D)/include'
	install -m644 $(LIB)/libtally.a '$(DESTDIR)$(LIBDIR)'
	install -m755 $(LIB)/$(SONAME) $(LIB)/libtally_opencl.so '$(DESTDIR)$(LIBDIR)'
	install -d '$(DESTDIR)$(VENDORS)'
	umask 022 && echo "$(LIBDIR)/libtally_opencl.so" >'$(DESTDIR)$(VENDORS)/tally.icd'
	ln -sf $(SONAME) '$(DESTDIR)$(LIBDIR)/libtally.so'
	umask 022 && sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@VERSION@|$(VERSION)|' client/tally.pc.in \
	    >'$(DESTDIR)$(LIBDIR)/pkgconfig/tally.pc'
	install -m644 client/cli/completion.bash '$(D)/share/bash-completion/completions/tally'
	install -m644 client/cli/completion.zsh '$(D)/share/zsh/site-functions/_tally'
	install -m644 client/cli/completion.fish '$(D)/share/fish/vendor_completions.d/tally.fish'
	set -e; for page in client/man/*.[1-8]; do install -D -m644 $$page '$(D)/share/man/man'$${page##*.}/$${page##*/}; done
	install -D -m644 build/man/tallyd.8 '$(D)/share/man/man8/tallyd.8'
	set -e; for page in $(DOCUMENTS); do install -D -m644 $$page '$(D)/share/doc/tally/'$$page; done
	install -d '$(D)/lib/systemd/system'
	umask 022 && set -e; for unit in deploy/tallyd.service deploy/tallyd.socket; do \
	    sed 's|/usr/local|$(PREFIX)|' $$unit >'$(D)/lib/systemd/system/'$${unit#deploy/}; done

unit-tests: $(patsubst %.c,$(B)/%,$(UNIT_SRC)) $(B)/tests/tallyd_faults $(PRELOADED) $(SLOW_GPU)
kernel-tests: $(patsubst %.c,$(B)/%,$(KTEST_SRC))

# The objects that lint compiles. Only the libraries to preload are linked, because they have no objects.
.PHONY: product-objects product-list test-objects cxx-objects warnings
warnings:
	@echo $(WARN) $(CWARN)
PRODUCT_OBJ = $(call objs,server/main.c $(SERVER_SRC) $(KERNEL_SRC) $(PROTO_SRC) $(CLIENT_SRC) $(CLI_SRC))
product-objects: $(PRODUCT_OBJ)
product-list:
	@echo $(PRODUCT_OBJ)
test-objects: $(call objs,$(TESTLIB_SRC) $(UNIT_SRC) $(KTEST_SRC) $(wildcard tests/client/*.c tests/client/lib/*.c tests/bench/*.c tests/load/*.c tests/fuzz/*.c tests/gpu/*.c)) \
    $(TESTING_OBJ) $(PRELOADED)
cxx-objects: $(call objs,$(filter %.cc,$(PROTO_SRC)))

test: deps-test ## Install what is missing, build, and run all tests
	@sh tests/run.sh $(MODE)
asan: deps-sanitizers ## Run the tests with AddressSanitizer and UndefinedBehaviorSanitizer
tsan: ## Run the tests with ThreadSanitizer
asan tsan: deps-test
	@sh tests/run.sh $@

# Delays the server's threads at random: a failure that occurs once in a thousand runs on a busy machine becomes
# frequent. Tests of speed are not run.
.PHONY: stalls
stalls: deps-test ## Run the integration tests while threads are delayed at random
	@$(MAKE) --no-print-directory -s -j"$$(nproc)" all opencl $(B)/tests/tallyd_faults $(PRELOADED) $(SLOW_GPU)
	@TALLY_TEST_HOLD_UP=$(CURDIR)/$(B)/tests/libhold_up.so TALLYD=$(CURDIR)/$(BIN)/tallyd $${VENV:-build/venv}/bin/python -m pytest tests/integration tests/client/python -q -n "$$(($$(nproc) + 3))" --dist worksteal -m 'not release_only' $(ARGS)

# Runs the programs of docs/clients in every language; `make test` runs those that need no compiler.
.PHONY: test-clients
test-clients: deps-test deps-clients ## Run the programs of docs/clients in every language
	@$(MAKE) --no-print-directory -j"$$(nproc)" $(BIN)/tallyd
	@TALLY_TEST_ALL_CLIENTS=1 TALLYD=$(CURDIR)/$(BIN)/tallyd build/venv/bin/python -m pytest tests/integration/test_client_pages.py -q

lint: deps-lint ## Run the static checks
	@sh tests/lint.sh

# Checks that take minutes: the programs for GPUs as clang compiles them, every kernel with every type, the kernels
# under sanitizers, the corpus under every OpenCL runtime and under Oclgrind, and clang's analyser at full depth.
.PHONY: kernel-proofs kernel-sanitize oclgrind
kernel-sanitize: deps-sanitizers ## Run the kernels under sanitizers
	@sh tests/sanitizers/kernels.sh $(ARGS)
oclgrind: deps-oclgrind ## Run the kernels under Oclgrind
	@sh tests/oclgrind/run.sh
kernel-proofs: deps-test deps-sanitizers deps-oclgrind deps-gpu deps-lint $(addprefix $(B)/tests/kernels/,test_scan_device test_nasty_shapes test_nasty_memory test_page_ends test_random) ## Run every check of the kernels; takes long
	@TIDY_NODES=225000 sh tests/lint.sh tidy
	@python3 tests/gpu/programs.py
	@build/venv/bin/python -m pytest tests/gpu -q
	@$${VENV:-build/venv}/bin/python tests/gpu/simulate.py
	@sh tests/gpu/lookback.sh
	@$(B)/tests/kernels/test_scan_device --all
	@$(B)/tests/kernels/test_nasty_shapes --all
	@$(B)/tests/kernels/test_nasty_memory --all
	@$(B)/tests/kernels/test_page_ends --all
	@$(B)/tests/kernels/test_random --all-types --cases 1000 --log2 20
	@sh tests/sanitizers/kernels.sh
	@sh tests/matrix/run.sh

image: ## Build the container images
	@sh tests/image/build.sh
image-test: deps-test ## Build, start and test the container images
	@sh tests/image/run.sh

# Archives of this commit: its source, with the same bytes each time, and Debian packages built from the source.
# deb-test installs, runs and purges the packages in a new Debian system (as root).
.PHONY: dist deb deb-test
dist: ## Pack the source of this commit
	@sh deploy/dist.sh
deb: deps deps-release dist ## Build Debian packages of this commit
	@sh deploy/deb.sh build/dist/tally-$(VERSION).tar.gz build/deb
deb-test: deb ## Install, run and purge the Debian packages; as root
	@sh tests/deb/run.sh

# All files of a release of this commit, into build/release-files/ (docs/releasing.md).
.PHONY: release release-test
release: deps-release ## Make all files of a release: source, packages, images; as root
	@sh deploy/release.sh
release-test: deps-release deps-test ## Make the files of a release twice, compare and try them; as root
	@sh tests/release/run.sh

# The description of each target for users follows two hashes in its rule.
help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.* ## \(.*\)/\1 \2/p' Makefile | LC_ALL=C sort | while read -r target text; do \
	    printf '  make %-18s %s\n' "$$target" "$$text"; done

clean: ## Remove build/
	rm -rf build

-include $(shell find $(B) -name '*.d' 2>/dev/null)
