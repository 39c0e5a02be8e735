# The kernels for processors, compiled ahead: every program of a list (list_kernels.c) for every
# level.
#
#   make -f kernels/cpu/kernels.mk LIST=FILE DIR=FOLDER LEVELS='v4 v3' OUT=FILE.o \
#       [CLANG=clang] [FLAGS=...]
#
# makes OUT of all of them and of the table that driver.h declares, with DIR in between. A level is
# one of x86-64 (v2, v3, v4), the highest first, or `baseline`. LEVEL_512 has vectors of 512 bits
# wherever that pays where the processor does them at once. With `none` there are no kernels,
# clang is not needed, and the driver has no device. FLAGS are for sanitizers.
CLANG  ?= clang
FLAGS  ?=
LEVELS ?= baseline
LD     ?= ld
levels := $(filter-out none,$(LEVELS))

names   := $(shell cut -f1 $(LIST))
objects := $(foreach level,$(levels),$(names:%=$(DIR)/$(level)/%.o))
# Loops over a few cells are not to become calls of memcpy (-fno-builtin).
# Only the types of OpenCL C, and functions of our own: the compiler's own header of all functions
# takes longer to read than a kernel to compile. The kernels are vectors as they are written, and
# unrolled where they say so: looking for more of either takes the compiler half of its time and
# gains nothing.
cl_flags := -x cl -cl-std=CL1.2 -Xclang -finclude-default-header -Xclang -fdeclare-opencl-builtins -Xclang -cl-ext=+cl_khr_fp64 -O2 \
    -fno-vectorize -fno-slp-vectorize -fno-unroll-loops -fno-builtin -ffp-contract=off -fPIC -fvisibility=hidden -Wall -Werror -Wno-unused-function -Wno-psabi \
    -include kernels/cpu/opencl_c.h $(FLAGS)
machine   = $(if $(filter v%,$(1)),-march=x86-64-$(1:_512=)) \
            $(if $(filter %_512,$(1)),-mprefer-vector-width=512)

# Up to date it may be older than what the caller's rule has before it.
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

# The program's row of the list: its name, options, sources, kernels. Several lists may share DIR:
# whoever changes a row removes the object.
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
# Sources that are gone or have another name by now, as objects of before know them.
kernels/cl/%.cl: ;
