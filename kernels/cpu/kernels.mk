# The kernels for processors, compiled ahead: every program of a list (list_kernels.c) for every
# level.
#
#   make -f kernels/cpu/kernels.mk LIST=FILE DIR=FOLDER LEVELS='v4 v3' OUT=FILE.o \
#       [CLANG=clang] [FLAGS=...]
#
# makes OUT, which contains all of them and the table that driver.h declares; DIR is for temporary
# files. LEVELS are levels of x86-64 (v2, v3, v4), the highest first, or `baseline`. A level with the
# suffix _512 uses vectors of 512 bits, for processors that execute these at once. With `none` there
# are no kernels, clang is not needed, and the driver has no device. FLAGS are for sanitizers.
CLANG  ?= clang
FLAGS  ?=
LEVELS ?= baseline
LD     ?= ld
levels := $(filter-out none,$(LEVELS))

names   := $(shell cut -f1 $(LIST))
objects := $(foreach level,$(levels),$(names:%=$(DIR)/$(level)/%.o))
# -fno-builtin: loops over a few cells must not become calls of memcpy.
# -finclude-default-header with -fdeclare-opencl-builtins includes only the types of OpenCL C, not the
# compiler's header of all functions, which takes longer to read than a kernel takes to compile; the
# functions are in opencl_c.h. The kernels are written with vectors, and unrolled by pragmas: automatic
# vectorization and unrolling would take half of the compiler's time and gain nothing.
cl_flags := -x cl -cl-std=CL1.2 -Xclang -finclude-default-header -Xclang -fdeclare-opencl-builtins -Xclang -cl-ext=+cl_khr_fp64 -O2 \
    -fno-vectorize -fno-slp-vectorize -fno-unroll-loops -fno-builtin -ffp-contract=off -fPIC -fvisibility=hidden -Wall -Werror -Wno-unused-function -Wno-psabi \
    -include kernels/cpu/opencl_c.h $(FLAGS)
machine   = $(if $(filter v%,$(1)),-march=x86-64-$(1:_512=)) \
            $(if $(filter %_512,$(1)),-mprefer-vector-width=512)

# Touch OUT even if it is up to date: it may be older than a prerequisite of the caller's rule.
.PHONY: made
made: $(OUT)
	@touch $<

$(OUT): $(objects) $(OUT:.o=.table.o)
	@echo "$(LD) -r -o $@ ($(words $^) objects)" && $(LD) -r -o $@ $^

$(OUT:.o=.table.o): $(OUT:.o=.table.c) kernels/cpu/driver.h
	$(CC) -std=c17 -O2 -fPIC -fvisibility=hidden -D_GNU_SOURCE -DCL_TARGET_OPENCL_VERSION=120 -I. -c -o $@ $<

# A line "kernel,name,signature" of the list becomes a row for each level.
$(OUT:.o=.table.c): $(LIST) kernels/cpu/kernels.mk
	@mkdir -p $(@D)
	@cut -f4 $(LIST) | tr ' ' '\n' >$@.kernels
	@{ echo '#include "kernels/cpu/driver.h"' && \
	for level in $(levels); do sed "s/.*,\(.*\),.*/extern void \1_$$level(void);/" $@.kernels || exit 1; done && \
	echo 'const struct cpu_builtin cpu_builtins[] = {' && \
	for level in $(levels); do \
	    sed "s/.*,\(.*\),\(.*\)/{\"$$level\", \"\1\", \"\2\", (cpu_code)\1_$$level},/" $@.kernels || exit 1; \
	done && echo '};' && \
	echo 'const size_t cpu_builtin_count = sizeof cpu_builtins / sizeof *cpu_builtins;'; } >$@.new && mv $@.new $@ && rm $@.kernels

# Compile a program from its row of the list: name, options, sources, kernels. Several lists may share
# DIR, so the object does not depend on the list: a rule that changes a row removes the object.
define unit
$(DIR)/$(1)/%.o: kernels/cpu/kernels.mk | $(LIST)
	@mkdir -p $$(@D)
	@row=$$$$(grep "^$$*	" $(LIST)) && \
	options=$$$$(echo "$$$$row" | cut -f2) && \
	for kernel in $$$$(echo "$$$$row" | cut -f4); do \
	    symbol=$$$${kernel#*,} && options="$$$$options -D$$$${kernel%%,*}=$$$${symbol%,*}_$(1)"; \
	done && \
	files='' && for source in $$$$(echo "$$$$row" | cut -f3); do \
	    case $$$$source in */*) file=$$$$source ;; *) file=kernels/cl/$$$$source.cl ;; esac; \
	    files="$$$$files -include $$$$file"; \
	done && \
	$(CLANG) $(cl_flags) $(call machine,$(1)) $$$$options $$$$files -MMD -MP -c -o $$@ /dev/null
endef
$(foreach level,$(levels),$(eval $(call unit,$(level))))

-include $(objects:.o=.d)
# An empty rule for sources that no longer exist but that the .d files of older objects still name.
kernels/cl/%.cl: ;
