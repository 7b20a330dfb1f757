# tests.mk: the tests, and the programs that they run. The Makefile includes it.

DEPS_TEST  := libcmocka-dev sqlite3 zstd python3 g++ zsh fish optional:libxrt-dev uuid-dev
DEPS_CLANG := libcmocka-dev clang libomp-dev
DEPS_FUZZ  := libclang-rt-dev

# The folder of data that some tests want and the project does not have: make check-data DATA=/path
DATA       ?=

TEST_BIN   := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/test_*.c))
SUPPORT    := $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(wildcard tests/test_*.c),$(wildcard tests/*.c)))
# Commands for tests that call their functions.
CMD_PARTS  := $(filter-out %/main.o,$(CMD_OBJ))
CMOCKA     := $(shell $(PKG_CONFIG) --libs cmocka 2>/dev/null || echo -lcmocka)

# tests/run.py runs tests side by side, in this order: those that take longest come first.
TESTS_LONG := $(patsubst %,tests/cli/%.sh,ranks plan inputs bench checkpoints going_back families strangers owners victims chat xrt mix stop examples reshard \
              surroundings snapshots encoders train prepare report memory)
TESTS_REST := $(BUILD)/tests/cuts/cuts $(filter-out $(TESTS_LONG),$(sort $(wildcard tests/cli/*.sh)) tests/layers.py tests/owners.py tests/style.py $(TEST_BIN))
OPENCL_TESTS := $(BUILD)/tests/test_csd $(BUILD)/tests/test_csd_ahead
TESTS_DATA := $(BUILD)/tests/test_data tests/cli/glue.sh tests/cli/hf.sh
RUN_TESTS   = BUILD="$(abspath $(BUILD))" SITRAIN_DATA="$(DATA)" SITRAIN="$(abspath $(TARGET))" \
              SITRAIN_OPENBLAS="$(abspath $(BUILD))/tests/siTrain-openblas" SITRAIN_EXAMPLES="$(abspath $(BUILD))/examples" \
              SITRAIN_SMARTSSD="$(if $(SMARTSSD_FILES),$(abspath $(SMARTSSD)))" $(PYTHON) tests/run.py

.PHONY: test test-bins check-opencl check-data demo-xrt asan tsan asan-run tsan-run asan-quick tsan-quick clang fuzz crash \
        prove-faults prove-cuts smartssd xclbin
test: ## every test, with what is installed: no network, no root
	+@$(SUBMAKE) $(JOBS) all test-bins asan-quick tsan-quick
	@$(RUN_TESTS) $(ASAN_LONG) $(TESTS_LONG) $(TSAN_QUICK) $(TESTS_REST) $(filter-out $(ASAN_LONG),$(ASAN_QUICK))

test-bins: $(TEST_BIN) $(BUILD)/tests/cuts/cuts $(BUILD)/tests/siTrain-openblas $(BUILD)/examples/train $(BUILD)/tests/delay.so ## build the test programs only

check-opencl: ## --csd opencl on PoCL, OpenCL on this processor (LLVM comes with it): devices' tests, runs beside emulated devices
	@sh tests/apt.sh $(DEPS_BUILD) $(DEPS_TEST) opencl-headers ocl-icd-libopencl1 pocl-opencl-icd
	+@$(SUBMAKE) $(JOBS) all $(OPENCL_TESTS)
	@"$(abspath $(TARGET))" devices >$(BUILD)/devices; grep '^  opencl  *available' $(BUILD)/devices || \
	    { grep '^  opencl' $(BUILD)/devices >&2; exit 1; }
	@POCL_CACHE_DIR="$(abspath $(BUILD))/pocl" $(RUN_TESTS) $(OPENCL_TESTS) tests/cli/opencl.sh

check-data: ## the tests that want data (DATA=): GLUE's files, a real GPT-2
	@sh tests/apt.sh $(DEPS_BUILD) $(DEPS_TEST)
	+@$(SUBMAKE) $(JOBS) all $(BUILD)/tests/test_data
	@$(RUN_TESTS) $(TESTS_DATA)

demo-xrt: ## --csd xrt on 3 software SmartSSDs, beside emulated CSDs: the same losses and parameters
	@sh tests/apt.sh $(DEPS_BUILD) $(DEPS_DEMO) g++ libxrt-dev uuid-dev
	+@$(SUBMAKE) $(JOBS) all smartssd
	@test -e $(SMARTSSD)/sitrain.xclbin && SITRAIN="$(abspath $(TARGET))" sh tests/demo_xrt.sh $(abspath $(SMARTSSD))

# The same sources with sanitizers, each in its own build folder. `make test` runs the quick tests of
# them, for which it compiles no more than they link.
ASAN        := $(BUILD)-asan
TSAN        := $(BUILD)-tsan
ASAN_LONG   := $(ASAN)/tests/fuzz/replay $(ASAN)/tests/crash/crash
ASAN_QUICK  := $(patsubst %,$(ASAN)/tests/test_%,tokens pretoken tokenizer safetensors task examples chat_rows chat_encode jinja csd grad_wire runlog run smartssd) \
               $(ASAN_LONG)
TSAN_QUICK  := $(patsubst %,$(TSAN)/tests/test_%,csd csd_ahead meter stream_read comm thread)
# These scripts do not look at the memory or the speed of the program.
ASAN_CLI    := $(patsubst %,tests/cli/%.sh,chat chat_surprises check classifier config dpo embed examples finetune finite generate misuse places report sweeps rows \
               tensorboard trace watch)
TSAN_TESTS  := $(patsubst %,$(BUILD)/tests/test_%,csd csd_ahead stream_csd stream_compress stream_order stream_commit stream_fault \
               stream_read stream_pieces pieces comm disk meter ranks thread snapshot)
# sanitized FOLDER FLAGS. What they find is told by lines, which is all that -g1 has; it compiles a fifth faster than -g.
sanitized    = $(SUBMAKE) BUILD=$(1) TARGET=$(1)/siTrain CFLAGS="-O1 -g1 $(2)" CXXFLAGS="-O1 -g1 $(2)" LDFLAGS="$(2)" KERNEL_CFLAGS=
ASAN_MAKE    = $(call sanitized,$(ASAN),-fsanitize=address$(comma)undefined -fno-omit-frame-pointer)
# TSan does not see libgomp: the threaded parts are tested with kernels on one thread each.
TSAN_MAKE    = $(call sanitized,$(TSAN),-fsanitize=thread)

asan-quick:
	+@$(ASAN_MAKE) $(ASAN_QUICK)
tsan-quick:
	+@$(TSAN_MAKE) LIB=$(TSAN)/libcore.a ROOMS="data/base data/file data/json data/db comm kernels kernels/* csd csd/* offload offload/* data/opt" $(TSAN_QUICK)

asan: ## the whole suite under AddressSanitizer and UBSan, and the program as a person runs it
	+@$(ASAN_MAKE) all test-bins
	+@$(ASAN_MAKE) asan-run
asan-run:
	@$(RUN_TESTS) $(ASAN_CLI) $(TEST_BIN)

tsan: ## the threaded parts under ThreadSanitizer, and small runs of several families
	+@$(TSAN_MAKE) all
	+@$(TSAN_MAKE) tsan-run
tsan-run: $(TSAN_TESTS)
	@OMP_NUM_THREADS=1 $(RUN_TESTS) tests/tsan.sh $(TSAN_TESTS)

clang: ## build everything with clang, warnings as errors
	@sh tests/apt.sh $(DEPS_BUILD) $(DEPS_CLANG)
	+@$(SUBMAKE) CC=clang CXX=clang++ BUILD=$(BUILD)-clang DEV=1 TARGET=$(BUILD)-clang/siTrain all test-bins

# Hostile input: tests/fuzz has a target for each parser. `make test` runs each on its seeds and some
# mutations of them (replay). `make fuzz` runs libFuzzer for FUZZ_SECONDS each, in folders of
# $(FUZZ_DIR) that the next one goes on from.
FUZZ_SECONDS ?= 60
FUZZ_TARGETS ?= tokens safetensors gguf tokenizer encode config task examples database run gradient options superblock topology jinja rows \
                chat peft
FUZZ_DIR     ?= $(BUILD)-fuzz
FUZZ_OBJ     := $(patsubst %.c,$(BUILD)/%.o,$(filter-out %/replay.c %/libfuzzer.c,$(wildcard tests/fuzz/*.c))) $(BUILD)/tests/tempdir.o
FUZZ_FLAGS   := -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -Wno-pass-failed

fuzz: ## hostile input for every parser, FUZZ_SECONDS each (60), with libFuzzer and sanitizers
	@sh tests/apt.sh $(DEPS_BUILD) $(DEPS_CLANG) $(DEPS_FUZZ)
	+@$(SUBMAKE) CC=clang BUILD=$(FUZZ_DIR) TARGET=$(FUZZ_DIR)/siTrain LDFLAGS="-fsanitize=fuzzer,address,undefined" \
	    KERNEL_CFLAGS= CFLAGS="-O1 -g $(FUZZ_FLAGS)" $(FUZZ_DIR)/tests/fuzz/fuzz
	@sh tests/fuzz/fuzz.sh $(FUZZ_DIR) $(FUZZ_SECONDS) $(FUZZ_TARGETS)

$(BUILD)/tests/fuzz/replay: $(BUILD)/tests/fuzz/replay.o $(FUZZ_OBJ) $(CMD_PARTS) $(LINKED)
	$(call say,ld)
	$(link)
$(BUILD)/tests/fuzz/fuzz: $(BUILD)/tests/fuzz/libfuzzer.o $(FUZZ_OBJ) $(CMD_PARTS) $(LINKED)
	$(call say,ld)
	$(link)

$(BUILD)/tests/support.a: $(SUPPORT)
	@rm -f $@ && $(AR) rcsT $@ $^
$(TEST_BIN:=.o): | $(BUILD)/tests/found
$(BUILD)/tests/test_%: $(BUILD)/tests/test_%.o $(BUILD)/tests/support.a $(LINKED)
	$(call say,ld)
	$(link) $(CMOCKA)

# The program as `make ONEDNN=0` makes it.
$(BUILD)/tests/siTrain-openblas: LIBS := $(filter-out -ldnnl,$(LIBS))
$(BUILD)/tests/siTrain-openblas: $(filter-out %/matmul_onednn.o,$(LIB_OBJ)) $(CMD_OBJ)
	@mkdir -p $(@D)
	$(call say,ld)
	$(link)

# The FPGA's kernels, compiled by any compiler of C++, for their test alone.
HLS_OBJ := $(patsubst %.cpp,$(BUILD)/%.o,$(wildcard csd/hls/*.cpp))
$(BUILD)/csd/hls/%.o: csd/hls/%.cpp $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,c++)
	$(Q)$(CXX) $(COMPILEXX) -MMD -MP -c $< -o $@
$(BUILD)/tests/test_hls: $(HLS_OBJ)
$(BUILD)/tests/test_hls $(BUILD)/tests/test_smartssd: LIBS += -lstdc++
$(BUILD)/tests/test_bench: $(CMD_PARTS)

# Forms of products with instructions that few CPUs have, compiled once more with the headers of
# tests/emulated, which compute these instructions in plain C.
EMULATED := $(BUILD)/tests/emulated/block_amx.o $(BUILD)/tests/emulated/block_pairs.o
$(EMULATED): EXTRA := $(KERNEL_CFLAGS) -iquote tests/emulated -Dblock_amx=block_amx_emulated -Dblock_pairs=block_pairs_emulated
$(BUILD)/tests/emulated/%.o: kernels/product/%.c $(BUILD)/flags | $(BUILD)/found
	@mkdir -p $(@D)
	$(call say,cc)
	$(Q)$(CC) $(COMPILE) -MMD -MP -c $< -o $@
-include $(EMULATED:.o=.d)
$(BUILD)/tests/test_product: $(EMULATED)

# Computational storage without a card: tests/smartssd is a driver library under libxrt (XILINX_XRT is
# its folder), with xclbins that have no bitstream, good and wrong ones. The classes of libxrt come
# from the archives of libxrt-dev. SMARTSSD_KNOWN is the version that tests/smartssd fits.
SMARTSSD       := $(BUILD)/tests/smartssd
SMARTSSD_KNOWN := 2.13
SMARTSSD_LIB   := $(foreach a,swemu hwemu,$(wildcard $(shell $(CC) -print-file-name=libxrt_$(a).a)))
XRT_VERSION    := $(if $(HAS_XRT),$(shell sed -n 's/.*xrt_build_version\[\] = "\([0-9]*\.[0-9]*\).*/\1/p' $(XRT_INC)/version.h))
SMARTSSD_WHY   := $(if $(HAS_XRT),$(if $(filter-out 2,$(words $(SMARTSSD_LIB))),libxrt_swemu.a and libxrt_hwemu.a of libxrt-dev are not here,$(if \
                  $(filter $(SMARTSSD_KNOWN),$(XRT_VERSION)),,libxrt is $(XRT_VERSION) and tests/smartssd knows $(SMARTSSD_KNOWN))),libxrt-dev \
                  and uuid-dev are not here or XRT=0 was given)
SMARTSSD_SRC   := $(filter-out tests/smartssd/mkxclbin.c,$(wildcard tests/smartssd/*.c)) tests/smartssd/glue.cpp $(wildcard csd/hls/*.cpp)
SMARTSSD_OBJ   := $(patsubst %,$(SMARTSSD)/%.o,$(SMARTSSD_SRC))
SMARTSSD_XRT   := $(addprefix $(SMARTSSD)/,device_swemu.cxx.o system_swemu.cxx.o device_pcie.cpp.o system_pcie.cpp.o aie_stubs.cpp.o)
SMARTSSD_FLAWS := $(addsuffix .xclbin,without short scattered cut)
SMARTSSD_FILES := $(if $(SMARTSSD_WHY),,$(SMARTSSD)/lib/libxrt_core.so.2 $(addprefix $(SMARTSSD)/,sitrain.xclbin $(SMARTSSD_FLAWS)))

smartssd: $(SMARTSSD_FILES) ## a software SmartSSD under libxrt, for tests
	@$(if $(SMARTSSD_WHY),echo "no software SmartSSD: $(SMARTSSD_WHY)")

$(SMARTSSD)/%.o: EXTRA := -isystem $(XRT_INC) -fPIC -fexceptions
$(SMARTSSD)/%.c.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,cc)
	$(Q)$(CC) $(filter-out -fopenmp,$(COMPILE)) -MMD -MP -c $< -o $@

$(SMARTSSD)/%.cpp.o: %.cpp $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,c++)
	$(Q)$(CXX) $(COMPILEXX) -MMD -MP -c $< -o $@

# One method of libxrt is replaced, so that devices are found by their place on the bus.
$(SMARTSSD_XRT) &: $(SMARTSSD_LIB)
	@mkdir -p $(SMARTSSD)
	$(Q)cd $(SMARTSSD) && for a in $(SMARTSSD_LIB); do ar x $$a $(notdir $(SMARTSSD_XRT)) 2>/dev/null; done; \
	    objcopy --redefine-sym _ZNK8xrt_core6system13get_device_idERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE=smartssd_device_id \
	    system_swemu.cxx.o && touch $(notdir $(SMARTSSD_XRT))

$(SMARTSSD)/lib/libxrt_core.so.2: $(SMARTSSD_OBJ) $(SMARTSSD_XRT)
	@mkdir -p $(@D)
	$(call say,ld)
	$(Q)$(CXX) -shared -Wl,-Bsymbolic -Wl,-soname,libxrt_core.so.2 $(LDFLAGS) $^ -lxrt_coreutil -luuid -lpthread -o $@

$(SMARTSSD)/mkxclbin: $(SMARTSSD)/tests/smartssd/mkxclbin.c.o
	$(call say,ld)
	$(Q)$(CC) $(LDFLAGS) $^ -o $@
$(SMARTSSD)/sitrain.xclbin: $(SMARTSSD)/mkxclbin
	$(Q)$< $@
$(addprefix $(SMARTSSD)/,$(SMARTSSD_FLAWS)): $(SMARTSSD)/%.xclbin: $(SMARTSSD)/mkxclbin
	$(Q)$< $@ $* sitrain_update

$(BUILD)/tests/test_smartssd: $(HLS_OBJ) | $(SMARTSSD_FILES)

# docs/hardware.md has examples: PLATFORM=xilinx_u2_gen3x4_xdma_gc_2_202110_1 FOR=hw_emu MHZ=150
PLATFORM ?=
FOR      ?= hw
MHZ      ?= 200
xclbin: ## the FPGA's kernels through Vitis: siTrain.xclbin in the build folder (PLATFORM=, FOR=hw|hw_emu, MHZ=; hours)
	@sh csd/hls/xclbin.sh "$(PLATFORM)" "$(FOR)" "$(MHZ)" "$(BUILD)/xclbin"

# Power cuts: calls of files, threads and clocks go to the simulated machine of tests/crash.
CRASH_WRAP := open close pread pwrite fsync fdatasync sync_file_range ftruncate posix_fallocate flock fstat fstatvfs stat lstat statvfs access realpath \
              mkdir rmdir unlink rename renameat2 opendir readdir rewinddir closedir statx remove getrandom pthread_create pthread_join pthread_mutex_lock pthread_mutex_unlock pthread_cond_wait \
              openat fstatat faccessat ioctl link posix_fadvise lgetxattr \
              pthread_cond_timedwait pthread_cond_clockwait pthread_cond_signal pthread_cond_broadcast clock_gettime getrusage usleep nanosleep madvise
CRASH_OBJ  := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/crash/*.c)) $(BUILD)/tests/toy.o $(BUILD)/tests/routes.o $(BUILD)/tests/comm_threads.o
$(BUILD)/tests/crash/crash: WRAP := $(CRASH_WRAP:%=-Wl,--wrap=%)
$(BUILD)/tests/crash/crash: $(CRASH_OBJ) $(LINKED)
	$(call say,ld)
	$(link)

# The same machine, and the program's own commands on it: snapshots, going back, restore.
CUTS_WRAP  := snapshot_begin snapshot_finish snapshot_drop portions_encode snapshots_rotate going_back going_back_restore checkpoints_export best_export
CUTS_OBJ   := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/cuts/*.c)) \
              $(patsubst %,$(BUILD)/tests/crash/%.o,bytes names posix posix_dir posix_more power storage threads vfs_sim)
$(BUILD)/tests/cuts/cuts: WRAP := $(CRASH_WRAP:%=-Wl,--wrap=%) $(CUTS_WRAP:%=-Wl,--wrap=%)
$(BUILD)/tests/cuts/cuts: $(CUTS_OBJ) $(CMD_PARTS) $(LINKED)
	$(call say,ld)
	$(link)

# CRASH='--config "*ranks*" --points 300' chooses some configurations and some of their points. All
# points of several ranks take most of an hour.
CRASH ?=
# CUTS='--story "back*" --points 300' chooses some stories and some of their points.
CUTS ?= --points 100
prove-cuts: $(BUILD)/tests/cuts/cuts ## power cuts while commands take snapshots, export, rotate, go back and restore (CUTS=, thousands)
	@sh tests/cuts/all.sh $(BUILD)/tests/cuts/cuts $(CUTS)

crash: $(BUILD)/tests/crash/crash ## power cuts at every operation of short runs on a simulated machine (CRASH=)
	@OMP_NUM_THREADS=1 $(BUILD)/tests/crash/crash --all $(CRASH)

# Faults: tests/fault lets these calls fail, one at a time.
FAULT_WRAP := open pread pwrite fsync fdatasync ftruncate posix_fallocate mkdir rename renameat2 malloc calloc realloc aligned_alloc mmap strdup strndup \
              realpath asprintf pthread_create io_uring_queue_init io_uring_submit io_uring_submit_and_wait io_uring_submit_and_wait_timeout

FAULT_BIN  := $(BUILD)/tests/test_fault $(BUILD)/tests/test_fault_calls

$(FAULT_BIN): $(BUILD)/tests/fault/trial.o
$(BUILD)/tests/test_csd: WRAP := -Wl,--wrap=mmap -Wl,--wrap=munmap
$(BUILD)/tests/test_fault_calls: WRAP := $(FAULT_WRAP:%=-Wl,--wrap=%)
$(BUILD)/tests/test_fault_calls: $(BUILD)/tests/fault/calls.o $(CMD_PARTS)

prove-faults: $(FAULT_BIN) ## every request, system call and allocation of short runs fails once
	@for t in $(FAULT_BIN); do $$t all || exit 1; done

# This library delays, holds or kills the program at its calls of files, and lets locks fail.
$(BUILD)/tests/delay.so: tests/shim/delay.c
	@mkdir -p $(@D)
	$(call say,ld)
	$(Q)$(CC) -std=c17 -D_GNU_SOURCE -O2 -g $(WARN) -shared -fPIC $< -o $@ -ldl

-include $(HLS_OBJ:.o=.d) $(SMARTSSD_OBJ:.o=.d)
