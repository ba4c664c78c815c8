#pragma once

#include <cstdint>
#include <span>

namespace espalier::fabric {

// The published functions that switch hashes are made of. Pure; all bytes in network order.
using ByteView = std::span<const std::uint8_t>;

// SipHash-2-4, 64 bits (Aumasson and Bernstein 2012); the key's halves are read little-endian.
std::uint64_t SipHash24(std::uint64_t key0, std::uint64_t key1, ByteView bytes);

// CRC with generator 0x1021, most significant bit first, nothing added at the end: from 0xFFFF it
// is CRC-16/CCITT-FALSE, from 0 CRC-16/XMODEM.
std::uint16_t Crc16Ccitt(std::uint16_t initial, ByteView bytes);
// CRC with generator 0x8005, least significant bit first: from 0 it is CRC-16/ARC (BISYNC).
std::uint16_t Crc16Bisync(std::uint16_t initial, ByteView bytes);
// CRC with generator 0x04C11DB7, least significant bit first, not inverted at the end: from
// 0xFFFFFFFF and inverted it is the CRC-32 of Ethernet.
std::uint32_t Crc32(std::uint32_t initial, ByteView bytes);

// XOR of the bytes as 16-bit words; a last odd byte is the high half of a word.
std::uint16_t XorFold16(ByteView bytes);

// Jenkins' lookup3, hashlittle (2006).
std::uint32_t JenkinsLookup3(std::uint32_t initial, ByteView bytes);
// Its last step for exactly two words, as the Linux kernel's jhash_2words.
std::uint32_t JenkinsTwoWords(std::uint32_t first, std::uint32_t second, std::uint32_t initial);

// The Toeplitz hash of receive-side scaling with Microsoft's published key; up to 36 bytes.
std::uint32_t Toeplitz(ByteView bytes);

}  // namespace espalier::fabric
