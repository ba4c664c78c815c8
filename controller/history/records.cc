#include "controller/history/records.h"

#include <algorithm>
#include <cmath>

namespace espalier::controller {
namespace {

constexpr int kFine = 128;     // codes below it count sixteenths
constexpr double kParts = 16;  // of a load of 1, and steps of each doubling above
constexpr double kUseParts = 250;
constexpr int kMost = 255;

}  // namespace

std::uint8_t EncodeLoad(double load) {
  if (!(load > 0)) return 0;
  const double fine = std::ceil(load * kParts - 1e-9);
  if (fine < kFine) return static_cast<std::uint8_t>(std::max(1.0, fine));
  const double steps = std::ceil(kParts * std::log2(load * kParts / kFine) - 1e-9);
  return static_cast<std::uint8_t>(std::clamp(kFine + steps, double{kFine}, double{kMost}));
}

double DecodeLoad(std::uint8_t code) {
  if (code < kFine) return code / kParts;
  return kFine / kParts * std::exp2((code - kFine) / kParts);
}

std::uint8_t EncodeUse(double use) {
  if (!(use > 0)) return 0;
  return static_cast<std::uint8_t>(std::clamp(std::round(use * kUseParts), 1.0, double{kMost}));
}

double DecodeUse(std::uint8_t code) { return code / kUseParts; }

}  // namespace espalier::controller
