#include "controller/api/actions/topology_action.h"

#include <fmt/format.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "common/files/json_writer.h"
#include "common/files/topology_file.h"

namespace espalier::controller {

std::string TopologyDigest(const fabric::Topology& topology) {
  fabric::TopologySpec spec = topology.Spec();
  spec.version = 1;
  for (fabric::Link& link : spec.links) link.state = fabric::LinkState::kUp;
  std::uint64_t digest = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : io::FormatTopology(spec)) {
    digest = (digest ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return fmt::format("{:016x}", digest);
}

std::string TopologyEffectsView(const TopologyEffects& effects, const TopologyAnswer& answer) {
  io::JsonWriter json;
  const auto list = [&](std::string_view key, const std::vector<std::string>& texts) {
    json.Key(key).BeginArray();
    for (const std::string& text : texts) json.String(text);
    json.EndArray();
  };
  json.BeginObject();
  json.Key("dry_run").Bool(answer.dry_run);
  json.Key("base").String(answer.base);
  io::WriteTopologyChanges(json, effects.changes);
  json.Key("flows_kept").Integer(effects.flows_kept);
  json.Key("flows_moved").Integer(effects.flows_moved);
  json.Key("flows_lost").Integer(effects.flows_lost);
  list("hosts_lost", effects.hosts_lost);
  list("contradictions", effects.contradictions);
  list("intents_dropped", effects.dropped);
  json.Key("question").String(answer.question);
  json.Key("refusal").String(answer.refusal);
  json.EndObject();
  return json.Text();
}

namespace {

std::string QuestionFor(const Controller& controller, const TopologyEffects& effects) {
  const std::size_t limit = controller.settings().now().confirm_moves_above;
  if (limit == 0 || std::cmp_less_equal(effects.flows_moved, limit)) return "";
  return fmt::format("this would move {} flows, more than confirm_moves_above ({})",
                     effects.flows_moved, limit);
}

}  // namespace

void ApplyTopology(Controller& controller, TopologyKeeper* keeper, const io::HttpRequest& request,
                   const OperatorRequest& asked, std::function<void(Result<std::string>)> done) {
  if (keeper == nullptr) {
    return done(Fail(ErrorCode::kFailedPrecondition,
                     "this controller does not take over topologies while it runs (restart it)"));
  }
  Result<fabric::Topology> after = io::ParseTopology(request.body, "topology");
  if (!after) return done(Propagate(after));
  TopologyAnswer answer{.dry_run = asked.dry_run,
                        .base = TopologyDigest(controller.state().topology)};
  const auto base = request.query.find("base");
  const bool is_old =
      base != request.query.end() && !base->second.empty() && base->second != answer.base;
  if (is_old || (keeper->has_prepared() && !asked.dry_run)) {
    return done(Fail(ErrorCode::kFailedPrecondition,
                     "another topology was applied in the meantime (look at the difference again "
                     "with --dry-run)"));
  }
  const TopologyEffects effects = ComputeEffects(controller.state(), *after);
  answer.question = QuestionFor(controller, effects);
  const Result<void> checked = CheckEffects(effects, asked.force);
  if (asked.dry_run) {
    if (!checked) answer.refusal = checked.error().message;
    return done(TopologyEffectsView(effects, answer));
  }
  if (checked && !answer.question.empty() && !asked.force) {
    return done(Fail(ErrorCode::kFailedPrecondition,
                     answer.question + " (confirm it with --force or force=true)"));
  }
  const bool is_prepared = checked.has_value();
  if (is_prepared) {
    if (Result<void> prepared = keeper->Prepare(request.body); !prepared) {
      return done(Propagate(prepared));
    }
  }
  answer.question.clear();
  // An action that is refused is in the audit log, too.
  controller.actions().ApplyTopology(std::move(*after), asked,
                                     [keeper, effects, answer, is_prepared, done = std::move(done)](
                                         const Result<ActionOutcome>& outcome) {
                                       if (!outcome) {
                                         if (is_prepared) keeper->Abandon();
                                         return done(tl::unexpected<Error>(outcome.error()));
                                       }
                                       if (Result<void> kept = keeper->Commit(); !kept)
                                         return done(Propagate(kept));
                                       done(TopologyEffectsView(effects, answer));
                                     });
}

}  // namespace espalier::controller
