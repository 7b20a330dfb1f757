/* f16.h: conversion from and to IEEE 754 half precision, in which some model files are stored.
 * Few files include this header, because the compiler takes half a second to read the
 * intrinsics' header. */
#pragma once

#include <immintrin.h>
#include <stdint.h>

static inline float f16_to_f32(uint16_t h) { return _cvtsh_ss(h); }

/* Rounds to nearest, ties to even, as bf16_from_f32 does. */
static inline uint16_t f16_from_f32(float f) { return _cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT); }
