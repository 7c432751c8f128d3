# The door: thin lines over Meson. `make deps` needs root; nothing else does but running probes.
BUILD ?= build

all: $(BUILD)/build.ninja
	ninja -C $(BUILD)

$(BUILD)/build.ninja:
	meson setup $(BUILD)

clean:
	rm -rf build build-*

.PHONY: all clean
