# The build. `make demo` shows siTrain at work, `make check` tests it, `make help` lists the rest.
# Tests are in tests/tests.mk; benchmarks, experiments and long proofs in tests/experiments.mk.
# Only the targets that run tests/apt.sh or tests/hf/venv.sh use the network or install anything.
BUILD   ?= build
TARGET  ?= $(if $(filter build,$(BUILD)),siTrain,$(BUILD)/siTrain)
PREFIX  ?= /usr/local
.DEFAULT_GOAL := all

ifneq ($(dir $(lastword $(MAKEFILE_LIST))),./)
# Make was called in another folder (make -f /path/Makefile). It works in the folder of the sources
# and leaves all that it builds in the folder where it was called.
HERE  := $(foreach v,BUILD TARGET DESTDIR DATA VENV,$(if $($v),$v="$(abspath $($v))"))
.PHONY: all elsewhere $(MAKECMDGOALS)
$(sort all $(MAKECMDGOALS)): elsewhere ; @:
elsewhere:
	+@$(MAKE) --no-print-directory -C $(dir $(lastword $(MAKEFILE_LIST))) $(HERE) \
	    $(MAKECMDGOALS:$(BUILD)/%=$(abspath $(BUILD))/%)
else
# make's own CC is cc.
CC      := $(if $(filter default,$(origin CC)),gcc,$(CC))
PYTHON  ?= python3
PKG_CONFIG ?= pkg-config
MPICC   ?= mpicc
Q       := $(if $(filter 1,$(V)),,@)
say      = @$(if $(Q),echo "  $(1) $@",:)
# One job a CPU, unless the caller of make has chosen a number.
JOBS     = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc))
SUBMAKE  = $(MAKE) --no-print-directory

# CPPFLAGS, CFLAGS, CXXFLAGS, LDFLAGS and LDLIBS are the caller's. They add to the flags below.
CFLAGS   ?= -O2 -g
CXXFLAGS ?= $(CFLAGS)
ARCH     ?= -march=x86-64-v3
WARN     := -Wall -Wextra -Wshadow -Wconversion $(if $(DEV),-Werror)
# The compiler vectorises the plain hot loops, once for AVX2 and once for AVX-512 (target_clones).
# No kernel reads errno or the exception flags. Without the middle two options, sqrtf and selections
# stay scalar.
KERNEL_CFLAGS ?= -O3 -fno-math-errno -fno-trapping-math -mprefer-vector-width=512
# These follow CFLAGS, since results depend on them: the optimizer computes a written sequence of
# operations (kernels/update/optim.h). Link-time optimization loses the symbols of .incbin and of
# --wrap.
MUST     := -ffp-contract=off -fno-strict-aliasing -fno-lto

# Libraries as pkg-config knows them. Without its answer, the name of the package is the library's.
PKGS     := openblas liburing sqlite3 libpcre2-8 jansson libutf8proc libisal blkid zlib libzstd
pkg       = $(shell for p in $(PKGS); do $(PKG_CONFIG) $(1) $$p 2>/dev/null || echo $(2); done)
INCLUDES := -I. $(patsubst -I%,-isystem %,$(call pkg,--cflags))
LIBS     := $(patsubst -lzlib,-lz,$(patsubst -llib%,-l%,$(call pkg,--libs,-l$$p))) -lm

# EXTRA and WRAP are set for single targets.
COMPILE   = -std=c17 -D_GNU_SOURCE $(ARCH) $(WARN) $(INCLUDES) $(CPPFLAGS) $(CFLAGS) $(EXTRA) $(MUST) \
            -fopenmp -pthread
COMPILEXX = -std=c++17 $(ARCH) $(WARN) -Wno-unknown-pragmas -I. $(CPPFLAGS) $(CXXFLAGS) $(EXTRA) $(MUST)
link      = $(Q)$(CC) $(COMPILE) $(LDFLAGS) $(WRAP) $(filter %.o,$^) $(filter %.a,$^) $(LIBS) $(LDLIBS) -o $@

# Optional libraries are looked for. `make ONEDNN=0 XRT=0 OPENCL=0 MPI=0` builds without them.
compiles = $(shell $(1) $(CPPFLAGS) $(2) -fsyntax-only -x c /dev/null 2>/dev/null && echo 1 || echo 0)
# kernels/product/matmul_onednn.c knows these major versions of oneDNN.
ONEDNN_KNOWN := 2 3
ONEDNN  := $(or $(ONEDNN),$(shell echo 'int main(void) { return 0; }' | \
    $(CC) $(CPPFLAGS) -include oneapi/dnnl/dnnl.h -x c - $(LDFLAGS) -ldnnl -o /dev/null 2>/dev/null && \
    echo DNNL_VERSION_MAJOR | $(CC) $(CPPFLAGS) -include oneapi/dnnl/dnnl_version.h -E -P -x c - | tail -n 1))
XRT_INC ?= /usr/include/xrt
XRT     := $(or $(XRT),$(call compiles,$(CC),-isystem $(XRT_INC) -include xrt/xrt_device.h))
OPENCL  := $(or $(OPENCL),$(call compiles,$(CC),-include CL/cl.h -DCL_TARGET_OPENCL_VERSION=120))
MPI     := $(or $(MPI),$(call compiles,$(MPICC),-include mpi.h))
HAS_ONEDNN  := $(filter $(ONEDNN_KNOWN),$(ONEDNN))
$(foreach n,XRT OPENCL MPI,$(eval HAS_$n := $(filter-out 0,$($n))))
ONEDNN_NOTE := $(if $(HAS_ONEDNN),,siTrain is built without oneDNN, OpenBLAS computes all products: $(if \
    $(filter 0,$(ONEDNN)),ONEDNN=0 was given,$(if $(ONEDNN),version $(ONEDNN) is not one of those that it \
    knows ($(ONEDNN_KNOWN)),libdnnl-dev is not here)))
without      = $(if $(HAS_$(1)),,siTrain is built without $(2): $(3) is not here or $(1)=0 was given)
XRT_NOTE    := $(call without,XRT,libxrt and refuses --csd xrt,libxrt-dev)
OPENCL_NOTE := $(call without,OPENCL,OpenCL and refuses --csd opencl,opencl-headers)
MPI_NOTE    := $(call without,MPI,MPI and runs as one process,libopenmpi-dev)

# Open MPI's compiler says its flags in one way, MPICH's in another.
comma     := ,
MPI_WORDS  = $(filter -I% -L% -l% -Wl$(comma)-rpath%,$(shell $(MPICC) -showme:$(1) 2>/dev/null || \
    $(MPICC) -show 2>/dev/null))
LIBS      += $(if $(HAS_ONEDNN),-ldnnl) $(if $(HAS_MPI),$(call MPI_WORDS,link))
XRT_SRC   := csd/engine/engine_xrt.c
$(BUILD)/kernels/%.o: EXTRA := $(KERNEL_CFLAGS)
$(XRT_SRC:%.c=$(BUILD)/%.o) $(BUILD)/tests/test_smartssd.o: EXTRA := $(if $(HAS_XRT),-isystem $(XRT_INC))
$(BUILD)/comm/comm_mpi.o $(BUILD)/tests/test_comm_mpi.o: \
    EXTRA := $(if $(HAS_MPI),$(patsubst -I%,-isystem %,$(call MPI_WORDS,compile)))

# Everything but the commands is a library, which the tests and examples/ link. Weak symbols name the
# optional parts, so that these objects are linked whole (WEAK_OBJ).
ROOMS    ?= data/base data/file data/json data/opt data/db data/text data/tensors data/task comm kernels kernels/* csd csd/* \
            offload offload/* model model/* chat/jinja chat run/folder run/snapshots run/texts run/sources run/ranks plan run/loop run
LIB      ?= $(BUILD)/libsitrain.a
ABSENT   := $(if $(HAS_ONEDNN),,kernels/product/matmul_onednn.c) $(if $(HAS_XRT),,$(XRT_SRC)) \
            $(if $(HAS_OPENCL),,csd/engine/engine_opencl.c) $(if $(HAS_MPI),,comm/comm_mpi.c)
LIB_SRC  := $(filter-out $(ABSENT),$(wildcard $(ROOMS:%=%/*.c)))
CMD_SRC  := $(wildcard report/*.c bench/*.c cmd/*.c cmd/*/*.c)
LIB_OBJ  := $(LIB_SRC:%.c=$(BUILD)/%.o)
CMD_OBJ  := $(CMD_SRC:%.c=$(BUILD)/%.o)
WEAK_OBJ := $(filter %/matmul_onednn.o %/engine_xrt.o %/engine_opencl.o %/comm_mpi.o,$(LIB_OBJ))
LINKED   := $(WEAK_OBJ) $(LIB)

# Debian's packages that the build and the demo need. apt may lack the optional ones.
DEPS_BUILD := gcc make libc6-dev libopenblas-openmp-dev optional:libdnnl-dev optional:libxrt-dev \
              optional:opencl-headers optional:libopenmpi-dev optional:openmpi-bin liburing-dev \
              libsqlite3-dev libpcre2-dev libjansson-dev libutf8proc-dev libisal-dev libblkid-dev \
              zlib1g-dev libzstd-dev
DEPS_DEMO  := bible-kjv

.PHONY: all deps demo check install share deb format help clean FORCE
all: $(TARGET) ## build ./siTrain

deps: ## install what the build, the demo and the tests need (Debian packages; sudo where not root)
	@sh tests/apt.sh $(DEPS_BUILD) $(DEPS_DEMO) $(DEPS_TEST)

demo: ## install, build, train on the King James Bible on 4 emulated CSDs, show the result
	@sh tests/apt.sh $(DEPS_BUILD) $(DEPS_DEMO)
	+@$(SUBMAKE) $(JOBS) all
	@SITRAIN="$(abspath $(TARGET))" sh tests/demo.sh

check: deps ## install what tests need and run every test (make deps, then make test)
	+@$(SUBMAKE) test

# share/ has what `siTrain --man` and `siTrain --completion` print (tests/cli/completion.sh compares
# them), so that an install runs nothing, also where the program is for another machine. Debian's
# shells look in these folders. zsh looks elsewhere for completions that are not of a package.
SHARE   = $(DESTDIR)$(PREFIX)/share
ZSH_AT  = $(SHARE)/zsh/$(if $(filter /usr,$(PREFIX)),vendor-completions,site-functions)
install: $(TARGET) ## install the program, its manual page and completions (bash, zsh, fish) under PREFIX (/usr/local)
	install -D -m 755 $(TARGET) "$(DESTDIR)$(PREFIX)/bin/siTrain"
	install -D -m 644 share/siTrain.1 "$(SHARE)/man/man1/siTrain.1"
	install -D -m 644 share/siTrain.bash "$(SHARE)/bash-completion/completions/siTrain"
	install -D -m 644 share/siTrain.zsh "$(ZSH_AT)/_siTrain"
	install -D -m 644 share/siTrain.fish "$(SHARE)/fish/vendor_completions.d/siTrain.fish"

share: $(TARGET) ## write share/ again (manual page, completions)
	"$(abspath $(TARGET))" --man >share/siTrain.1
	for s in bash zsh fish; do "$(abspath $(TARGET))" --completion $$s >share/siTrain.$$s || exit 1; done

deb: $(TARGET) ## a Debian package of the program for the Debian that this is: build/sitrain_VERSION_amd64.deb
	@sh tests/apt.sh dpkg-dev binutils
	@sh tests/deb.sh "$(abspath $(TARGET))" "$(BUILD)"

format: ## clang-format on every source
	clang-format -i $(wildcard */*.c */*.h */*/*.c */*/*.h)

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' Makefile tests/*.mk | sed 's/:.*## /\t/' | expand -t 20

clean: ## remove what was built
	@for d in $(ASAN) $(TSAN) $(BUILD)-clang $(FUZZ_DIR) $(BUILD); do [ ! -e "$$d/found" ] || rm -rf "$$d"; done
	@rm -f "$(TARGET)"

# A compiler or header that is missing gets one sentence, not a page of errors.
HEADERS := cblas.h liburing.h sqlite3.h pcre2.h jansson.h utf8proc.h isa-l/crc.h blkid/blkid.h zlib.h zstd.h
$(BUILD)/tests/found: HEADERS := cmocka.h
$(BUILD)/found $(BUILD)/tests/found: $(BUILD)/flags
	@$(CC) --version >/dev/null 2>&1 || { echo "$(CC) is missing: make deps installs what the build needs" >&2; exit 1; }
	@for h in $(HEADERS); do \
	    echo "#include <$$h>" | $(CC) $(INCLUDES) $(CPPFLAGS) -DPCRE2_CODE_UNIT_WIDTH=8 -E - >/dev/null 2>&1 || \
	    { echo "$$h is missing: make deps installs what the build needs" >&2; exit 1; }; done
	@mkdir -p $(@D) && touch $@

# Other flags, or an optional library that came or went: all is compiled again.
FLAGS := $(CC) $(COMPILE) $(KERNEL_CFLAGS) / $(CXX) $(COMPILEXX) / $(LDFLAGS) $(LIBS) $(LDLIBS) / $(ABSENT)
ifneq ($(strip $(file <$(BUILD)/flags)),$(strip $(FLAGS)))
$(BUILD)/flags: FORCE
endif
$(BUILD)/flags: export FLAGS_NOW := $(strip $(FLAGS))
$(BUILD)/flags:
	@mkdir -p $(@D) && printf '%s\n' "$$FLAGS_NOW" >$@

$(TARGET): $(LIB_OBJ) $(CMD_OBJ)
	@mkdir -p $(@D)
	$(call say,ld)
	@$(foreach n,ONEDNN XRT OPENCL MPI,$(if $($n_NOTE),echo "$($n_NOTE)";)) :
	$(link)

$(LIB): $(LIB_OBJ)
	@rm -f $@ && $(AR) rcsT $@ $^
$(BUILD)/%.o: %.c $(BUILD)/flags | $(BUILD)/found
	@mkdir -p $(@D)
	$(call say,cc)
	$(Q)$(CC) $(COMPILE) -MMD -MP -c $< -o $@

# The assembler finds the files of .incbin in the folders of -I.
$(BUILD)/csd/engine/engine_opencl.o: csd/opencl/update.cl
$(BUILD)/data/db/schema.o: data/db/views.sql
$(BUILD)/data/db/questions.o: $(wildcard data/db/sql/*.sql)
$(BUILD)/report/page.o: report/page.css

# A program that has siTrain in it: examples/train.c.
$(BUILD)/examples/%: $(BUILD)/examples/%.o $(LINKED)
	$(call say,ld)
	$(link)

include tests/tests.mk tests/experiments.mk
-include $(patsubst %.c,$(BUILD)/%.d,$(LIB_SRC) $(CMD_SRC) $(wildcard tests/*.c tests/*/*.c examples/*.c))
.SECONDARY:
endif
