#pragma once

#include <cstddef>
#include <cstdint>

namespace espalier::wire {

// What a message may have at most. Decoder refuses others.
inline constexpr std::size_t kMaxMessageBytes = 4 << 20;
inline constexpr std::size_t kMaxFlowsPerReport = 16'384;
inline constexpr std::size_t kMaxWantedQueuePairs = 1'024;  // of a heartbeat
inline constexpr std::size_t kMaxNameBytes = 255;    // agent, job, device, link, feature names
inline constexpr std::size_t kMaxTextBytes = 4'096;  // reasons and details
inline constexpr std::size_t kMaxTableEntries = 16'384;
inline constexpr std::size_t kMaxNics = 256;
inline constexpr std::size_t kMaxFeatures = 256;
inline constexpr std::size_t kMaxPathsPerFlow = 64;
inline constexpr std::size_t kMaxLinksPerPath = 16;
inline constexpr std::size_t kMaxProbesPerOrder = 65'536;  // ports x TTLs
inline constexpr std::uint32_t kMaxProbesPerSecond = 1'000'000;
inline constexpr std::size_t kMaxTrainsPerOrder = 1'024;   // to send, and as many to expect
inline constexpr std::size_t kMaxTrainsPerReport = 2'048;  // sent, and as many received

}  // namespace espalier::wire
