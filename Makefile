# siTrain: `make demo` shows it at work, `make check` tests it, `make help` lists the rest.

CC      ?= gcc
BUILD   ?= build
PYTHON  ?= python3
V       ?= 0
Q       := $(if $(filter 1,$(V)),,@)

WARN    := -Wall -Wextra -Wshadow -Wconversion $(if $(DEV),-Werror)
ARCH    := -march=x86-64-v3
OPT     ?= -O2 -g
# -ffp-contract=off: what the optimizer computes is a written sequence of operations (kernels/optim.h).
CFLAGS  += -std=c17 -D_GNU_SOURCE $(OPT) $(ARCH) $(WARN) -ffp-contract=off -fno-strict-aliasing -fopenmp -pthread -I. -MMD -MP
# OpenBLAS is linked by its own name: Debian's plain libblas may be another flavour with a thread pool of its own.
LDLIBS  += -ldnnl -lopenblas -luring -lsqlite3 -lpcre2-8 -ljansson -lisal -largtable2 -lblkid -lm

# The hot loops are written plainly and vectorised by the compiler, once for AVX2 and once for AVX-512 (target_clones).
# No kernel reads errno or the exception flags; without these two, sqrtf and selections stay scalar.
$(BUILD)/kernels/%.o: OPT += -O3 -fno-math-errno -fno-trapping-math -mprefer-vector-width=512

LIB_SRC := $(wildcard data/*.c kernels/*.c csd/*.c offload/*.c model/*.c)
CMD_SRC := $(wildcard cmd/*.c)
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/%.o)
CMD_OBJ := $(CMD_SRC:%.c=$(BUILD)/%.o)
TEST_SUPPORT := $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(wildcard tests/test_*.c),$(wildcard tests/*.c)))
TEST_BIN := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/test_*.c))

# Packages: what the build needs, what the demo needs, what the tests need.
DEPS_BUILD := gcc make libc6-dev libopenblas-openmp-dev libdnnl-dev liburing-dev libargtable2-dev libsqlite3-dev libpcre2-dev \
              libjansson-dev libisal-dev libblkid-dev
DEPS_DEMO  := bible-kjv
DEPS_TEST  := libcmocka-dev clang sqlite3 python3 bible-kjv
apt         = @sh tests/apt.sh

.PHONY: all deps demo check check-hf test-bins asan tsan bench format help install clean
.DEFAULT_GOAL := all

all: siTrain ## build ./siTrain

siTrain: $(LIB_OBJ) $(CMD_OBJ)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -c $< -o $@

$(BUILD)/tests/test_%: $(BUILD)/tests/test_%.o $(TEST_SUPPORT) $(LIB_OBJ)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -lcmocka -o $@

test-bins: $(TEST_BIN) ## build the test programs only

clean: ## remove what was built
	rm -rf $(BUILD) siTrain

-include $(LIB_OBJ:.o=.d) $(CMD_OBJ:.o=.d) $(TEST_SUPPORT:.o=.d) $(TEST_BIN:=.d)
.SECONDARY:
