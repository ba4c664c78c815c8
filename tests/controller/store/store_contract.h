#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "controller/store/store.h"

namespace espalier::controller {

// Tests the contract of every store. The data of a store under test outlives its openings.
struct StoreUnderTest {
  std::function<std::unique_ptr<Store>()> open;  // as the next controller does
  std::function<void()> settle;                  // until nothing is waited for
};

class StoreContract : public testing::TestWithParam<std::function<StoreUnderTest()>> {
 protected:
  StoreContract() : subject_(GetParam()()) { Open(); }

  void Open() {
    store_.reset();
    store_ = subject_.open();
    Result<StoredState> begun = store_->Begin();
    ASSERT_TRUE(begun.has_value()) << begun.error().message;
    begun_ = std::move(*begun);
  }
  template <typename T>
  Result<T> Await(const std::function<void(Store::Done<T>)>& ask) {
    std::optional<Result<T>> answer;
    int answers = 0;
    ask([&](Result<T> result) {
      answer = std::move(result);
      ++answers;
    });
    EXPECT_EQ(answers, 0) << "answered inside the call";
    subject_.settle();
    EXPECT_EQ(answers, 1);
    return answer.value_or(Fail(ErrorCode::kInternal, "no answer"));
  }
  Result<Committed> Commit(StoreChange change) {
    return Await<Committed>([&](auto done) { store_->Commit(std::move(change), std::move(done)); });
  }
  Result<Intents> ReadIntents(std::uint64_t revision) {
    return Await<Intents>([&](auto done) { store_->ReadIntents(revision, std::move(done)); });
  }
  std::vector<AuditEntry> ReadAudit(std::uint64_t since, std::size_t most) {
    return Await<std::vector<AuditEntry>>(
               [&](auto done) { store_->ReadAudit(since, most, std::move(done)); })
        .value();
  }

  StoreUnderTest subject_;
  std::unique_ptr<Store> store_;
  StoredState begun_;
};

inline Intents SomeIntents() {
  using namespace std::chrono_literals;
  const WallTime then{1'795'253'938s + 907'654us};
  Intents intents;
  intents.failed_links["leaf0--spine1"] = {"", "user ada", then, std::nullopt};
  intents.failed_links["a--b#2"] = {"dirty \"optics\" 'now'", "10.0.0.1", then, then + 1h};
  intents.failed_nodes["spine3"] = {"maintenance", "user ada", then, std::nullopt};
  intents.drained_links["leaf1--spine1"] = {"soon", "user bob", then, then + 48h};
  intents.drained_nodes["sp\xc3\xafne2"] = {"", "user bob", then, std::nullopt};
  intents.restored_links["leaf2--spine0"] = {"the file is old", "", then, std::nullopt};
  intents.jobs["train"] = {"", "user ada", then, std::nullopt,
                           StartedJob{{.name = "train", .ranks = {"h0", "h1"}}, {4'791, 4'792}}};
  intents.weights["train"] = {"", "user ada", then, then + 1h, JobWeight{2}};
  intents.policies["algorithm"] = {"quiet", "user bob", then, std::nullopt, Algorithm::kGreedy};
  return intents;
}

inline AuditEntry SomeEntry(const std::string& target, AuditResult result) {
  AuditEntry entry;
  entry.time = WallTime(std::chrono::microseconds(1'795'253'938'907'654));
  entry.actor = "user ada";
  entry.action = "fail link";
  entry.target = target;
  entry.reason = "optics";
  entry.result = result;
  return entry;
}

// The keys of jobs are derived from it, so a restarted controller must not change it.
TEST_P(StoreContract, KeepsItsFirstSecret) {
  const JobKey secret = begun_.job_secret;
  ASSERT_TRUE(Commit({.epoch = 3}).has_value());
  Open();
  EXPECT_EQ(begun_.job_secret, secret);
  subject_ = GetParam()();
  Open();
  EXPECT_NE(begun_.job_secret, secret);
}

TEST_P(StoreContract, BeginsEmptyAndRaisesTheEpochEachTime) {
  EXPECT_EQ(begun_.epoch, 1U);
  EXPECT_EQ(begun_.revision, 0U);
  EXPECT_EQ(begun_.intents, Intents{});
  EXPECT_TRUE(begun_.events.empty());
  Open();
  EXPECT_EQ(begun_.epoch, 2U);
  ASSERT_TRUE(Commit({.epoch = 41}).has_value());
  ASSERT_TRUE(Commit({.epoch = 7}).has_value());  // lower: changes nothing
  Open();
  EXPECT_EQ(begun_.epoch, 42U);
}

TEST_P(StoreContract, KeepsFeedReportsApartFromTheIntents) {
  EXPECT_TRUE(begun_.reported_down.empty());
  ASSERT_TRUE(Commit({.intents = SomeIntents(), .topology = {"lab", 7}}).has_value());
  const WallTime then = SomeEntry("", AuditResult::kDone).time;
  const ReportedLinks some{{"leaf0--spine1", {"gnmi", then}}, {"a--b#2", {"it's \"odd\"", then}}};
  const auto committed = Commit({.reported_down = some});
  ASSERT_TRUE(committed.has_value());
  EXPECT_EQ(committed->revision, 1U) << "nobody has said what is to be";
  Open();
  EXPECT_EQ(begun_.reported_down, some);
  EXPECT_EQ(begun_.intents, SomeIntents());
  ASSERT_TRUE(Commit({.intents = Intents{}, .topology = {"lab", 8}}).has_value());
  Open();
  EXPECT_EQ(begun_.reported_down, some) << "no intent, no rollback";
  ASSERT_TRUE(Commit({.reported_down = ReportedLinks{}}).has_value());
  Open();
  EXPECT_TRUE(begun_.reported_down.empty());
  EXPECT_EQ(begun_.revision, 2U);
}

TEST_P(StoreContract, KeepsTheLedgerForAsLongAsItIsWanted) {
  EXPECT_TRUE(begun_.ledger.empty());
  const WallTime then = SomeEntry("", AuditResult::kDone).time;
  const auto step = std::chrono::minutes(10);
  const std::vector<StoredBursts> some = {{then, "it's \"odd\"", "ECMP", "1 2 3"},
                                          {then, "train", "ECMP", "4"},
                                          {then, "train", "STEERED", ""},
                                          {then + step, "train", "ECMP", "5"}};
  store_->KeepLedger(some, then);
  subject_.settle();
  Open();
  EXPECT_EQ(begun_.ledger, some);
  store_->KeepLedger({{then + step, "train", "ECMP", "6"}}, then + step);
  subject_.settle();
  Open();
  EXPECT_EQ(begun_.ledger, (std::vector<StoredBursts>{{then + step, "train", "ECMP", "6"}}));
}

TEST_P(StoreContract, ReturnsCommittedIntents) {
  const auto first = Commit({.intents = SomeIntents(), .topology = {"lab", 7}});
  ASSERT_TRUE(first.has_value()) << first.error().message;
  EXPECT_EQ(first->revision, 1U);
  EXPECT_EQ(first->audit_sequence, 0U);
  Open();
  EXPECT_EQ(begun_.revision, 1U);
  EXPECT_EQ(begun_.intents, SomeIntents());
  EXPECT_EQ(begun_.topology, (TopologyStamp{"lab", 7}));
}

TEST_P(StoreContract, KeepsEveryEarlierSetOfIntents) {
  Intents intents = SomeIntents();
  ASSERT_TRUE(Commit({.intents = intents}).has_value());
  Intents second = intents;
  second.failed_links.erase("a--b#2");
  second.failed_nodes["spine3"].reason = "longer maintenance";
  ASSERT_TRUE(Commit({.intents = second}).has_value());
  ASSERT_TRUE(Commit({.intents = Intents{}}).has_value());
  ASSERT_TRUE(Commit({.intents = intents}).has_value());
  EXPECT_EQ(ReadIntents(1).value(), intents);
  EXPECT_EQ(ReadIntents(2).value(), second);
  EXPECT_EQ(ReadIntents(3).value(), Intents{});
  EXPECT_EQ(ReadIntents(4).value(), intents);
  EXPECT_EQ(ReadIntents(5).error().code, ErrorCode::kNotFound);
}

TEST_P(StoreContract, AppendsToTheAuditLog) {
  ASSERT_EQ(Commit({.audit = SomeEntry("nowhere", AuditResult::kRefused)})->audit_sequence, 1U);
  const auto done =
      Commit({.intents = SomeIntents(), .audit = SomeEntry("l1", AuditResult::kUnfinished)});
  ASSERT_EQ(done->audit_sequence, 2U);
  const std::vector<AuditMove> moves = {{"h0:1", "job", "spine0", "spine1"},
                                        {"h3:9", "job", "spine0", ""}};
  ASSERT_TRUE(Await<void>([&](auto finished) {
                store_->FinishAudit(2, moves, std::move(finished));
              }).has_value());
  Commit({.audit = SomeEntry("l2", AuditResult::kUnfinished)});
  Open();
  const auto entries = ReadAudit(0, 100);
  ASSERT_EQ(entries.size(), 3U);
  AuditEntry expected = SomeEntry("l1", AuditResult::kDone);
  expected.sequence = 2;
  expected.revision = 1;
  expected.moves = moves;
  EXPECT_EQ(entries[0].result, AuditResult::kRefused);
  EXPECT_EQ(entries[1], expected);
  EXPECT_EQ(entries[2].result, AuditResult::kUnfinished);
  EXPECT_EQ(entries[2].revision, 0U);
  EXPECT_EQ(ReadAudit(1, 100).size(), 2U);
  ASSERT_EQ(ReadAudit(0, 1).size(), 1U);
  EXPECT_EQ(ReadAudit(0, 1)[0].target, "l2");
  EXPECT_TRUE(ReadAudit(3, 100).empty());
}

TEST_P(StoreContract, KeepsEvents) {
  const WallTime then{std::chrono::microseconds(1'795'253'938'907'654)};
  const std::vector<StoredEvent> events = {{5, then, "agent_up", "agent=h0"},
                                           {6, then, "link_failed", "link=l1"}};
  store_->AppendEvents(events);
  store_->AppendEvents({{9, then, "link_restored", "link=l1"}});
  subject_.settle();
  Open();
  ASSERT_EQ(begun_.events.size(), 3U);
  EXPECT_EQ(begun_.events[0], events[0]);
  EXPECT_EQ(begun_.events[2].sequence, 9U);
}

TEST_P(StoreContract, AnswersInTheOrderOfTheCalls) {
  std::vector<std::uint64_t> revisions;
  for (int i = 0; i < 20; ++i) {
    Intents intents;
    intents.failed_links["l" + std::to_string(i)];
    store_->Commit({.intents = intents}, [&](const Result<Committed>& committed) {
      revisions.push_back(committed->revision);
    });
  }
  subject_.settle();
  ASSERT_EQ(revisions.size(), 20U);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(revisions[i], i + 1);
}

}  // namespace espalier::controller
