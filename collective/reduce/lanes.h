#pragma once

// Vectors of elements in the compiler's vector extension, which maps them to the instructions for
// which a file is compiled. One file per SIMD level includes this header; ESPALIER_SIMD_LEVEL names
// the namespace, so that no code of one level is linked into another.

#include <cstddef>
#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace espalier::reduce::ESPALIER_SIMD_LEVEL {

#if defined(__AVX512BW__)
constexpr std::size_t kVectorBytes = 64;
#else
constexpr std::size_t kVectorBytes = 32;
#endif

template <typename T>
using Vector [[gnu::vector_size(kVectorBytes)]] = T;
using FloatVector = Vector<float>;
using WordVector = Vector<std::uint32_t>;
// As many 16-bit halves as there are words in a vector.
using HalfVector [[gnu::vector_size(kVectorBytes / 2)]] = std::uint16_t;

// Stores 16, 32 or 64 bytes to an address with that alignment, past the caches.
template <typename V>
inline void StreamTo(std::byte* to, V value) {
#if defined(__x86_64__)
  if constexpr (sizeof(V) == 16) {
    __m128i bits;
    std::memcpy(&bits, &value, sizeof(bits));
    _mm_stream_si128(reinterpret_cast<__m128i*>(to), bits);
#if defined(__AVX512BW__)
  } else if constexpr (sizeof(V) == 64) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), reinterpret_cast<__m512i>(value));
#endif
  } else {
    static_assert(sizeof(V) == 32);
    __m128i bits[2];
    std::memcpy(bits, &value, sizeof(bits));
#if defined(__AVX2__)
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), _mm256_set_m128i(bits[1], bits[0]));
#else
    _mm_stream_si128(reinterpret_cast<__m128i*>(to), bits[0]);
    _mm_stream_si128(reinterpret_cast<__m128i*>(to) + 1, bits[1]);
#endif
  }
#else
  std::memcpy(to, &value, sizeof(value));
#endif
}

// Orders streamed data before later writes, as seen by other threads.
inline void EndStream() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

// Types that are accumulated in themselves.
template <typename T>
struct PlainLanes {
  using Packed = Vector<T>;
  using Wide = Vector<T>;
  static constexpr std::size_t kBytes = sizeof(Packed);
  static constexpr std::size_t kElementBytes = sizeof(T);

  static Wide Widen(Packed packed) { return packed; }
  static Packed Narrow(Wide wide) { return wide; }
  static Wide Divide(Wide value, std::int64_t divisor) {
    if constexpr (static_cast<T>(0.5) != T{}) {
      return value / static_cast<T>(divisor);
    } else {
      for (std::size_t i = 0; i < kBytes / kElementBytes; ++i) {
        value[i] = static_cast<T>(value[i] / divisor);
      }
      return value;
    }
  }
};

struct FloatAccumulator {
  using Packed = HalfVector;
  using Wide = FloatVector;
  static constexpr std::size_t kBytes = sizeof(Packed);
  static constexpr std::size_t kElementBytes = 2;

  static Wide Divide(Wide value, std::int64_t divisor) {
    return value / static_cast<float>(divisor);
  }
};

inline WordVector WidenWords(HalfVector half) {
#if defined(__AVX512BW__)
  return reinterpret_cast<WordVector>(_mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(half)));
#elif defined(__AVX2__)
  __m128i bits;
  std::memcpy(&bits, &half, sizeof(bits));
  return reinterpret_cast<WordVector>(_mm256_cvtepu16_epi32(bits));
#else
  return __builtin_convertvector(half, WordVector);
#endif
}

// Precondition: words are below 2^16.
inline HalfVector NarrowWords(WordVector words) {
#if defined(__AVX512BW__)
  return reinterpret_cast<HalfVector>(_mm512_cvtepi32_epi16(reinterpret_cast<__m512i>(words)));
#elif defined(__AVX2__)
  const __m256i bits = reinterpret_cast<__m256i>(words);
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(bits, bits), 0x08);
  return reinterpret_cast<HalfVector>(_mm256_castsi256_si128(packed));
#else
  return __builtin_convertvector(words, HalfVector);
#endif
}

// Does not use the processor's own conversion (AVX512_BF16): it treats subnormals as zero, so ranks
// on other processors would get different bits.
struct Bf16Lanes : FloatAccumulator {
  static Wide Widen(Packed packed) {
    return reinterpret_cast<FloatVector>(WidenWords(packed) << 16);
  }
  static Packed Narrow(Wide wide) {
    const WordVector bits = reinterpret_cast<WordVector>(wide);
    const WordVector rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
    const WordVector quiet_nan = (bits >> 16) | 0x40U;
    // NOLINTNEXTLINE(misc-redundant-expression): NaN
    return NarrowWords(wide != wide ? quiet_nan : rounded);
  }
};

struct F16Lanes : FloatAccumulator {
#if defined(__AVX512BW__)
  static Wide Widen(Packed packed) { return _mm512_cvtph_ps(reinterpret_cast<__m256i>(packed)); }
  static Packed Narrow(Wide wide) {
    return reinterpret_cast<Packed>(_mm512_cvtps_ph(wide, _MM_FROUND_TO_NEAREST_INT));
  }
#elif defined(__F16C__)
  static Wide Widen(Packed packed) {
    __m128i bits;
    std::memcpy(&bits, &packed, sizeof(bits));
    return _mm256_cvtph_ps(bits);
  }
  static Packed Narrow(Wide wide) {
    return reinterpret_cast<Packed>(_mm256_cvtps_ph(wide, _MM_FROUND_TO_NEAREST_INT));
  }
#else
  // An addition to the bits moves the exponent. Subnormals get theirs by a subtraction of floats,
  // infinities and NaNs by a second addition.
  static Wide Widen(Packed packed) {
    const WordVector half = WidenWords(packed);
    const WordVector exponent = half & 0x7c00U;
    const WordVector moved = ((half & 0x7fffU) << 13) + (112U << 23);
    const WordVector special = moved + (112U << 23);
    const WordVector quiet = (half & 0x3ffU) != 0U ? special | 0x400000U : special;
    const FloatVector smallest = reinterpret_cast<FloatVector>(moved + (1U << 23)) - 0x1p-14F;
    const WordVector magnitude = exponent == 0x7c00U ? quiet
                                 : exponent == 0U    ? reinterpret_cast<WordVector>(smallest)
                                                     : moved;
    return reinterpret_cast<FloatVector>(magnitude | ((half & 0x8000U) << 16));
  }
  // An addition of floats rounds subnormals and leaves their bits in the last place.
  static Packed Narrow(Wide wide) {
    const WordVector bits = reinterpret_cast<WordVector>(wide);
    const WordVector magnitude = bits & 0x7fffffffU;
    const FloatVector sum = reinterpret_cast<FloatVector>(magnitude) + 0.5F;
    const WordVector subnormal = reinterpret_cast<WordVector>(sum) - 0x3f000000U;
    const WordVector normal = (magnitude - (112U << 23) + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
    const WordVector nan = 0x7e00U | ((magnitude >> 13) & 0x3ffU);
    const WordVector infinity = WordVector{} + 0x7c00U;
    const WordVector half = magnitude > 0x7f800000U    ? nan
                            : magnitude >= 0x477ff000U ? infinity
                            : magnitude < 0x38800000U  ? subnormal
                                                       : normal;
    return NarrowWords(half | ((bits >> 16) & 0x8000U));
  }
#endif
};

}  // namespace espalier::reduce::ESPALIER_SIMD_LEVEL
