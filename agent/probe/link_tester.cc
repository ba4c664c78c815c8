#include "agent/probe/link_tester.h"

#include <algorithm>
#include <utility>

namespace espalier::agent {

LinkTester::LinkTester(const LinkTesterOptions& options, EventLoop& loop, TrainSocket& socket,
                       Metrics& metrics, TrainSender::IsOwnAddress is_own, OnReport on_report)
    : options_(options),
      loop_(loop),
      on_report_(std::move(on_report)),
      sender_(options.sender, loop, socket, metrics, std::move(is_own),
              [this](const wire::SentTrain& train, bool urgent) {
                sent_.emplace(train.number, train);
                Schedule(urgent);
              }),
      receiver_(options.receiver, loop, socket, metrics,
                [this](wire::ReceivedTrain train, bool urgent) {
                  const std::uint64_t number = train.number;
                  received_.emplace(number, std::move(train));
                  Schedule(urgent);
                }) {}

void LinkTester::Handle(const wire::TrainOrder& order) {
  receiver_.Expect(order);
  sender_.Start(order);
}

void LinkTester::ForgetController() {
  sender_.Forget();
  receiver_.Forget();
  sent_.clear();
  received_.clear();
  timer_.reset();
}

void LinkTester::Schedule(bool urgent) {
  if (std::max(sent_.size(), received_.size()) >= options_.max_rows) return Report();
  if (timer_ && (is_urgent_ || !urgent)) return;
  is_urgent_ = urgent;
  timer_ = loop_.After(urgent ? options_.urgent_interval : options_.report_interval,
                       [this] { Report(); });
}

void LinkTester::Report() {
  timer_.reset();
  wire::TrainReport report;
  for (const auto& [number, train] : sent_) report.sent.push_back(train);
  for (auto& [number, train] : received_) report.received.push_back(std::move(train));
  sent_.clear();
  received_.clear();
  on_report_(std::move(report));
}

}  // namespace espalier::agent
