#pragma once

#include <cstdint>
#include <span>

namespace espalier::fabric {

// The published functions from which switch hashes are built. Pure; all bytes in network order.
using ByteView = std::span<const std::uint8_t>;

// SipHash-2-4, 64 bits (Aumasson and Bernstein 2012); the key's halves are read little-endian.
std::uint64_t SipHash24(std::uint64_t key0, std::uint64_t key1, ByteView bytes);

// CRC with generator 0x1021, most significant bit first, without a final XOR. Initial value 0xFFFF
// gives CRC-16/CCITT-FALSE, 0 gives CRC-16/XMODEM.
std::uint16_t Crc16Ccitt(std::uint16_t initial, ByteView bytes);
// CRC with generator 0x8005, least significant bit first. Initial value 0 gives CRC-16/ARC
// (BISYNC).
std::uint16_t Crc16Bisync(std::uint16_t initial, ByteView bytes);
// CRC with generator 0x04C11DB7, least significant bit first, without final inversion. Initial
// value 0xFFFFFFFF and an inverted result give the CRC-32 of Ethernet.
std::uint32_t Crc32(std::uint32_t initial, ByteView bytes);

// The XOR of all 16-bit words; an odd last byte is the high half of a word.
std::uint16_t XorFold16(ByteView bytes);
// The XOR of all 32-bit words, each read little-endian; the length is a multiple of 4.
std::uint32_t XorFold32(ByteView bytes);

// Jenkins' lookup3, hashlittle (2006).
std::uint32_t JenkinsLookup3(std::uint32_t initial, ByteView bytes);
// The last step of lookup3 for exactly two words, equal to the Linux kernel's jhash_2words.
std::uint32_t JenkinsTwoWords(std::uint32_t first, std::uint32_t second, std::uint32_t initial);

// The Toeplitz hash of receive-side scaling with Microsoft's published key; up to 36 bytes.
std::uint32_t Toeplitz(ByteView bytes);

}  // namespace espalier::fabric
