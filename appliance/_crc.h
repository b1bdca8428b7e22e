// CRC-32C kernels. The choice is made once, when the module is loaded.
//
// One hardware CRC instruction takes 3 cycles to answer but a new one can start every cycle. So the
// fast kernel runs three of them side by side, over three neighbouring lanes of equal length:
//
//     |<-- lane a: n words -->|<-- lane b: n words -->|<-- lane c: n words -->|  next three lanes
//
// and joins them at the end: crc(abc) = crc(a) * x^(128n) + crc(b) * x^(64n) + crc(c), modulo the
// CRC's polynomial. A carry-less multiply gives such a product unreduced, in 64 bits; adding it to
// the last word of lane c, before that word goes through the CRC instruction, reduces it for free.
// The constant for n words is x^(64n - 33): the instruction itself multiplies by x^32, and the
// product of two bit-reflected numbers stands one bit lower than their reflected product.
//
// Where the processor multiplies four pairs at once (AVX-512 with VPCLMULQDQ), folding is faster.
// The sum of a message only depends on its remainder modulo the polynomial, so 64 bytes of it may
// be taken away if what they are worth is added 256 bytes further on. Each 16 bytes of them are two
// words, the first worth x^64 times the second:
//
//     |  lanes at data  |  64..127  |  128..191  |  192..255  |  lanes at data + 256  | ...
//         first word  * x^(2048 + 64)  \_______ added to _______/
//         second word * x^2048         /
//
// Both products fit in 16 bytes, unreduced. The constants are again x^(64n - 33) for n = 33 and 32,
// 33 for the same two reasons: taken from the lower half of a reflected word, they are worth x^32
// more, and the product stands one bit lower. The last 64 bytes are folded onto their own last 16
// in the same way, and the instruction above sums those.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#define CRC_HARDWARE "sse4.2"
#define CRC_TARGET __attribute__((target("sse4.2,pclmul")))
#if (defined(__clang__) && __clang_major__ >= 9) || (!defined(__clang__) && __GNUC__ >= 9)
#define CRC_FOLDING "avx512"
#define CRC_FOLDING_TARGET __attribute__((target("sse4.2,pclmul,avx512f,vpclmulqdq")))
#endif
#elif defined(__aarch64__) && defined(__linux__) && !defined(__AARCH64EB__)
#include <arm_acle.h>
#include <arm_neon.h>
#include <sys/auxv.h>
#define CRC_HARDWARE "armv8"
#if defined(__clang__)
#define CRC_TARGET __attribute__((target("crc,aes")))
#else
#define CRC_TARGET __attribute__((target("+crc+crypto")))
#endif
#endif

namespace appliance_crc {

using Kernel = uint32_t (*)(uint32_t crc, const uint8_t *data, size_t size);

constexpr uint32_t POLYNOMIAL = 0x82F63B78;  // Castagnoli, bit-reflected

// Words in a lane. 256 make a block of 6 KiB, in which the join costs below 2 %, while the table of
// constants stays at 2 KiB, a small guest in the first-level cache.
constexpr size_t LANE_WORDS_MAX = 256;
// Below this many words in a lane the join costs more than the two idle lanes.
constexpr size_t LANE_WORDS_MIN = 4;

struct Tables {
    uint32_t slice[8][256];  // slice[k][b]: the CRC of byte b followed by k zero bytes
    uint32_t fold[2 * LANE_WORDS_MAX + 1];  // fold[n]: x^(64n - 33)
    Tables() {
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t crc = byte;
            for (int bit = 0; bit < 8; bit++) crc = times_x(crc);
            slice[0][byte] = crc;
        }
        for (int depth = 1; depth < 8; depth++)
            for (int byte = 0; byte < 256; byte++)
                slice[depth][byte] = times_x8(slice[depth - 1][byte]);
        uint32_t power = 0x80000000U;  // x^0
        for (int bit = 0; bit < 64 - 33; bit++) power = times_x(power);
        fold[0] = 0;
        for (size_t words = 1; words <= 2 * LANE_WORDS_MAX; words++) {
            fold[words] = power;
            for (int byte = 0; byte < 8; byte++) power = times_x8(power);
        }
    }
    static uint32_t times_x(uint32_t value) { return (value >> 1) ^ (value & 1 ? POLYNOMIAL : 0); }
    uint32_t times_x8(uint32_t value) const { return (value >> 8) ^ slice[0][value & 0xFF]; }
};

static const Tables tables;

// Slicing by 8: eight table look-ups a word, on any processor and byte order.
static uint32_t portable(uint32_t crc, const uint8_t *data, size_t size) {
    const auto &slice = tables.slice;
    crc = ~crc;
    for (; size >= 8; size -= 8, data += 8) {
        uint32_t low = crc ^ (uint32_t(data[0]) | uint32_t(data[1]) << 8 |
                              uint32_t(data[2]) << 16 | uint32_t(data[3]) << 24);
        crc = slice[7][low & 0xFF] ^ slice[6][low >> 8 & 0xFF] ^ slice[5][low >> 16 & 0xFF] ^
              slice[4][low >> 24] ^ slice[3][data[4]] ^ slice[2][data[5]] ^ slice[1][data[6]] ^
              slice[0][data[7]];
    }
    for (; size > 0; size--, data++) crc = (crc >> 8) ^ slice[0][(crc ^ *data) & 0xFF];
    return ~crc;
}

#ifdef CRC_HARDWARE

static inline uint64_t load_word(const uint8_t *data) {
    uint64_t word;
    std::memcpy(&word, data, 8);
    return word;
}

#if defined(__x86_64__)

CRC_TARGET static inline uint64_t add_word(uint64_t crc, uint64_t word) {
    return _mm_crc32_u64(crc, word);
}
CRC_TARGET static inline uint64_t add_byte(uint64_t crc, uint8_t byte) {
    return _mm_crc32_u8(uint32_t(crc), byte);
}
CRC_TARGET static inline uint64_t multiply(uint64_t crc, uint32_t constant) {
    __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128(int64_t(crc)),
                                           _mm_cvtsi32_si128(int32_t(constant)), 0);
    return uint64_t(_mm_cvtsi128_si64(product));
}
static bool has_hardware() {
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

#else

CRC_TARGET static inline uint64_t add_word(uint64_t crc, uint64_t word) {
    return __crc32cd(uint32_t(crc), word);
}
CRC_TARGET static inline uint64_t add_byte(uint64_t crc, uint8_t byte) {
    return __crc32cb(uint32_t(crc), byte);
}
CRC_TARGET static inline uint64_t multiply(uint64_t crc, uint32_t constant) {
    poly128_t product = vmull_p64(poly64_t(crc), poly64_t(constant));
    return vgetq_lane_u64(vreinterpretq_u64_p128(product), 0);
}
static bool has_hardware() {
    constexpr unsigned long PMULL = 1UL << 4, CRC32 = 1UL << 7;  // HWCAP_* of asm/hwcap.h
    return (getauxval(AT_HWCAP) & (PMULL | CRC32)) == (PMULL | CRC32);
}

#endif

// What a compiler makes of the instruction in a plain loop: for comparison, and for the tails.
CRC_TARGET static inline uint64_t add_bytes(uint64_t crc, const uint8_t *data, size_t size) {
    for (; size >= 8; size -= 8, data += 8) crc = add_word(crc, load_word(data));
    for (; size > 0; size--, data++) crc = add_byte(crc, *data);
    return crc;
}

CRC_TARGET static uint32_t hardware_1way(uint32_t crc, const uint8_t *data, size_t size) {
    return ~uint32_t(add_bytes(uint32_t(~crc), data, size));
}

CRC_TARGET static uint32_t hardware_3way(uint32_t crc, const uint8_t *data, size_t size) {
    uint64_t a = uint32_t(~crc);
    while (size >= 24 * LANE_WORDS_MIN) {
        size_t words = size / 24 < LANE_WORDS_MAX ? size / 24 : LANE_WORDS_MAX;
        const uint8_t *last = data + 8 * (words - 1), *lane_b = data + 8 * words;
        const uint8_t *lane_c = lane_b + 8 * words;
        uint64_t b = 0, c = 0;
        for (; data < last; data += 8, lane_b += 8, lane_c += 8) {
            a = add_word(a, load_word(data));
            b = add_word(b, load_word(lane_b));
            c = add_word(c, load_word(lane_c));
        }
        a = multiply(add_word(a, load_word(data)), tables.fold[2 * words]);
        b = multiply(add_word(b, load_word(lane_b)), tables.fold[words]);
        a = add_word(c, load_word(lane_c) ^ a ^ b);
        data = lane_c + 8;
        size -= 24 * words;
    }
    return ~uint32_t(add_bytes(a, data, size));
}

#endif

#ifdef CRC_FOLDING

// From here on it is the faster one at every size; below, a long tail behind the last 64 bytes may
// cost what the folding gained.
constexpr size_t FOLDING_SIZE_MIN = 512;

CRC_FOLDING_TARGET static inline __m512i load_lanes(const uint8_t *data) {
    return _mm512_loadu_si512(data);
}

// What moves four lanes `words` words further on.
CRC_FOLDING_TARGET static inline __m512i fold_constant(size_t words) {
    int64_t first = tables.fold[words + 1], second = tables.fold[words];
    return _mm512_set4_epi64(second, first, second, first);
}

CRC_FOLDING_TARGET static inline __m512i fold(__m512i lanes, __m512i constant, __m512i onto) {
    __m512i first = _mm512_clmulepi64_epi128(lanes, constant, 0x00);
    __m512i second = _mm512_clmulepi64_epi128(lanes, constant, 0x11);
    return _mm512_ternarylogic_epi64(first, second, onto, 0x96);  // the sum of all three
}

// The first three of four lanes move onto the last, whose two words the instruction sums.
CRC_FOLDING_TARGET static inline uint64_t sum_of(__m512i lanes) {
    const auto &power = tables.fold;
    __m512i constants = _mm512_set_epi64(0, 0, power[2], power[3], power[4], power[5], power[6],
                                         power[7]);
    __m512i last = _mm512_maskz_mov_epi64(0xC0, lanes);
    lanes = fold(lanes, constants, last);
    uint64_t words[8];
    _mm512_storeu_si512(words, lanes);
    uint64_t crc = add_word(0, words[0] ^ words[2] ^ words[4] ^ words[6]);
    return add_word(crc, words[1] ^ words[3] ^ words[5] ^ words[7]);
}

CRC_FOLDING_TARGET static uint32_t folding_4x512(uint32_t crc, const uint8_t *data, size_t size) {
    if (size < FOLDING_SIZE_MIN) return hardware_3way(crc, data, size);
    // the sum so far is added to the message's first 4 bytes, as the instruction does it
    __m512i begun = _mm512_maskz_set1_epi32(1, int32_t(~crc));
    __m512i a = _mm512_xor_si512(load_lanes(data), begun), b = load_lanes(data + 64);
    __m512i c = load_lanes(data + 128), d = load_lanes(data + 192);
    __m512i constant = fold_constant(32);
    for (data += 256, size -= 256; size >= 256; data += 256, size -= 256) {
        a = fold(a, constant, load_lanes(data));
        b = fold(b, constant, load_lanes(data + 64));
        c = fold(c, constant, load_lanes(data + 128));
        d = fold(d, constant, load_lanes(data + 192));
    }
    constant = fold_constant(8);
    d = fold(a, fold_constant(24), fold(b, fold_constant(16), fold(c, constant, d)));
    for (; size >= 64; data += 64, size -= 64) d = fold(d, constant, load_lanes(data));
    return ~uint32_t(add_bytes(sum_of(d), data, size));
}

static bool has_folding() {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
}

#endif

struct NamedKernel {
    const char *name;
    Kernel kernel;
};

// Best first; a null name ends the list. The compiler's run-time library asks the processor, and
// whether the operating system saves registers of 512 bits.
inline const NamedKernel *kernels() {
    static const NamedKernel all[] = {
#ifdef CRC_FOLDING
        {CRC_FOLDING "-fold", folding_4x512},
#endif
#ifdef CRC_HARDWARE
        {CRC_HARDWARE "-3way", hardware_3way},
        {CRC_HARDWARE "-1way", hardware_1way},
#endif
        {"portable-slice8", portable},
        {nullptr, nullptr}};
    const NamedKernel *best = all;
#ifdef CRC_HARDWARE
    bool hardware = has_hardware();
#ifdef CRC_FOLDING
    if (!hardware || !has_folding()) best++;
#endif
    if (!hardware) best += 2;
#endif
    return best;
}

}  // namespace appliance_crc
