#pragma once

#include <cstdint>
#include <optional>

#include "agent/verbs/queue_pair_path.h"
#include "common/verbs/path_control.h"

namespace espalier::agent {

// A queue pair whose device can change its port while it is used. The queue pair must outlive it.
class LiveQueuePair : public QueuePairPath {
 public:
  LiveQueuePair(ibv_qp& pair, std::uint32_t remote_number, verbs::LiveWay way)
      : pair_(pair), remote_number_(remote_number), way_(way) {}

  std::uint16_t OwnPort() const override;
  Result<void> Start(std::uint16_t port) override;
  Result<bool> Continue() override;
  Result<void> LimitRate(std::uint64_t bits_per_second) override;

 private:
  ibv_qp& pair_;
  const std::uint32_t remote_number_;
  const verbs::LiveWay way_;
  std::optional<verbs::LivePortChange> change_;
};

}  // namespace espalier::agent
