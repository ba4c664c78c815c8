#include "collective/program/files/program_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "collective/program/files/msccl_names.h"
#include "collective/program/files/parse_msccl_xml.h"
#include "collective/program/files/parse_mscclpp_json.h"
#include "collective/program/mscclpp/plan_program.h"
#include "collective/program/mscclpp/plan_run.h"
#include "common/files/file.h"
#include "common/files/json.h"
#include "common/files/json_fields.h"
#include "common/files/json_writer.h"

namespace espalier::program {
namespace {

using io::JsonFields;
using io::JsonValue;

constexpr std::int64_t kMaxSmall = 1 << 26;
constexpr std::int64_t kMaxLarge = std::numeric_limits<std::int64_t>::max();

std::string FormatLocation(Location location) {
  return fmt::format("{}{}", BufferName(location.buffer), location.index);
}

void WriteCollective(const CollectiveSpec& spec, io::JsonWriter& writer) {
  writer.BeginObject().Key("kind").String(CollectiveKindName(spec.kind));
  writer.Key("chunks").Integer(spec.chunks);
  if (spec.root != kNoRoot) writer.Key("root").Integer(spec.root);
  if (!spec.counts.empty()) {
    writer.Key("counts").BeginArray();
    for (const int count : spec.counts) writer.Integer(count);
    writer.EndArray();
  }
  if (!spec.expected.empty()) {
    writer.Key("expected").BeginArray();
    for (const Expectation& one : spec.expected) {
      writer.BeginObject().Key("rank").Integer(one.rank).Key("index").Integer(one.index);
      writer.Key("sum_of").BeginArray();
      for (const InputChunk& chunk : one.sum_of) {
        writer.BeginObject().Key("rank").Integer(chunk.rank);
        writer.Key("index").Integer(chunk.index).EndObject();
      }
      writer.EndArray().EndObject();
    }
    writer.EndArray();
  }
  writer.EndObject();
}

void WriteStep(const Step& step, io::JsonWriter& writer) {
  writer.BeginObject().Key("op").String(OpCodeName(step.op));
  if (ReadsSource(step.op)) writer.Key("source").String(FormatLocation(step.source));
  if (WritesDestination(step.op)) {
    writer.Key("destination").String(FormatLocation(step.destination));
  }
  if (step.count != 1) writer.Key("count").Integer(step.count);
  if (!step.after.empty()) {
    writer.Key("after").BeginArray();
    for (const Dependency& on : step.after) {
      writer.BeginObject().Key("block").Integer(on.block).Key("step").Integer(on.step).EndObject();
    }
    writer.EndArray();
  }
  writer.EndObject();
}

class Reader {
 public:
  explicit Reader(std::string_view name) : name_(name) {}

  Result<Program> Read(const JsonValue& json) {
    Program program;
    JsonFields fields(json, name_);
    program.name = fields.String("name");
    program.placement.in_place = fields.Bool("in_place", true);
    program.placement.out_of_place = fields.Bool("out_of_place", true);
    const std::string protocol = fields.String("protocol", "Simple");
    if (const auto known = kProtocolNames.Find(protocol)) {
      program.protocol = *known;
    } else {
      fields.AddError("protocol", "\"protocol\" must be Simple, LL or LL128");
    }
    program.min_bytes = fields.Integer("min_bytes", 0, 0, kMaxLarge);
    program.max_bytes = fields.Integer("max_bytes", kMaxLarge, 0, kMaxLarge);
    const JsonValue* collective = fields.Object("collective");
    for (const JsonValue& rank : fields.RequiredArray("ranks")) {
      program.ranks.push_back(ReadRank(rank));
    }
    if (collective == nullptr) fields.AddError("collective", "field \"collective\" is missing");
    if (auto finished = fields.Finish(); !finished) return Propagate(finished);
    if (error_) return tl::unexpected<Error>(std::move(*error_));
    program.collective = ReadCollective(*collective, static_cast<int>(program.ranks.size()));
    if (error_) return tl::unexpected<Error>(std::move(*error_));
    return program;
  }

 private:
  void Finish(JsonFields& fields) {
    auto finished = fields.Finish();
    if (!finished && !error_) error_ = std::move(finished.error());
  }

  static std::int32_t Small(JsonFields& fields, std::string_view key, std::int64_t fallback,
                            std::int64_t min = 0) {
    return static_cast<std::int32_t>(fields.Integer(key, fallback, min, kMaxSmall));
  }

  CollectiveSpec ReadCollective(const JsonValue& json, int ranks) {
    CollectiveSpec spec{.ranks = ranks};
    JsonFields fields(json, name_);
    const auto kind = FindCollectiveKind(fields.RequiredString("kind"));
    if (!kind) fields.AddError("kind", "unknown collective");
    spec.kind = kind.value_or(CollectiveKind::kCustom);
    spec.chunks = Small(fields, "chunks", 0);
    spec.root = Small(fields, "root", kNoRoot);
    for (const JsonValue& count : fields.Array("counts")) {
      int value = 0;
      const char* end = count.text.data() + count.text.size();
      const auto [stop, failure] = std::from_chars(count.text.data(), end, value);
      if (count.kind != JsonValue::Kind::kNumber || failure != std::errc() || stop != end) {
        fields.AddError("counts", "\"counts\" is not a list of whole numbers");
      }
      spec.counts.push_back(value);
    }
    for (const JsonValue& one : fields.Array("expected")) {
      JsonFields expectation(one, name_);
      Expectation& made = spec.expected.emplace_back();
      made.rank = Small(expectation, "rank", 0);
      made.index = Small(expectation, "index", 0);
      for (const JsonValue& chunk : expectation.RequiredArray("sum_of")) {
        JsonFields parts(chunk, name_);
        made.sum_of.push_back({Small(parts, "rank", 0), Small(parts, "index", 0)});
        Finish(parts);
      }
      Finish(expectation);
    }
    if (auto checked = spec.Check(); !checked) fields.AddError("kind", checked.error().message);
    Finish(fields);
    return spec;
  }

  RankProgram ReadRank(const JsonValue& json) {
    RankProgram rank;
    JsonFields fields(json, name_);
    rank.input_chunks = Small(fields, "input_chunks", 0);
    rank.output_chunks = Small(fields, "output_chunks", 0);
    rank.scratch_chunks = Small(fields, "scratch_chunks", 0);
    for (const JsonValue& block : fields.Array("blocks")) rank.blocks.push_back(ReadBlock(block));
    Finish(fields);
    return rank;
  }

  ThreadBlock ReadBlock(const JsonValue& json) {
    ThreadBlock block;
    JsonFields fields(json, name_);
    block.send_peer = Small(fields, "send", kNoPeer);
    block.receive_peer = Small(fields, "receive", kNoPeer);
    block.channel = Small(fields, "channel", 0);
    for (const JsonValue& step : fields.Array("steps")) block.steps.push_back(ReadStep(step));
    Finish(fields);
    return block;
  }

  static Location ReadLocation(JsonFields& fields, std::string_view key) {
    const std::string text = fields.RequiredString(key);
    const auto buffer = FindBuffer(std::string_view(text).substr(0, 1));
    std::int32_t index = 0;
    const char* begin = text.data() + std::min<std::size_t>(1, text.size());
    const char* end = text.data() + text.size();
    const auto [stop, failure] = std::from_chars(begin, end, index);
    if (!buffer || failure != std::errc() || stop != end || index < 0) {
      fields.AddError(key, "not a place (write i0, o3, s12: buffer and chunk)");
    }
    return {buffer.value_or(Buffer::kInput), index};
  }

  Step ReadStep(const JsonValue& json) {
    Step step;
    JsonFields fields(json, name_);
    const auto op = FindOpCode(fields.RequiredString("op"));
    if (!op) fields.AddError("op", "unknown step");
    step.op = op.value_or(OpCode::kNop);
    if (ReadsSource(step.op)) step.source = ReadLocation(fields, "source");
    if (WritesDestination(step.op)) step.destination = ReadLocation(fields, "destination");
    // An unused location repeats the other one.
    if (!ReadsSource(step.op)) step.source = step.destination;
    if (!WritesDestination(step.op)) step.destination = step.source;
    step.count = Small(fields, "count", 1);
    for (const JsonValue& dependency : fields.Array("after")) {
      JsonFields on(dependency, name_);
      step.after.push_back({Small(on, "block", 0), Small(on, "step", 0)});
      Finish(on);
    }
    Finish(fields);
    return step;
  }

  std::string_view name_;
  std::optional<Error> error_;
};

}  // namespace

std::string FormatProgramJson(const Program& program) {
  io::JsonWriter writer;
  writer.BeginObject().Key("name").String(program.name);
  writer.Key("collective");
  WriteCollective(program.collective, writer);
  writer.Key("in_place").Bool(program.placement.in_place);
  writer.Key("out_of_place").Bool(program.placement.out_of_place);
  writer.Key("protocol").String(kProtocolNames.NameOf(program.protocol));
  writer.Key("min_bytes").Integer(program.min_bytes);
  writer.Key("max_bytes").Integer(program.max_bytes);
  writer.Key("ranks").BeginArray();
  for (const RankProgram& rank : program.ranks) {
    writer.BeginObject().Key("input_chunks").Integer(rank.input_chunks);
    writer.Key("output_chunks").Integer(rank.output_chunks);
    writer.Key("scratch_chunks").Integer(rank.scratch_chunks).Key("blocks").BeginArray();
    for (const ThreadBlock& block : rank.blocks) {
      writer.BeginObject();
      if (block.send_peer != kNoPeer) writer.Key("send").Integer(block.send_peer);
      if (block.receive_peer != kNoPeer) writer.Key("receive").Integer(block.receive_peer);
      writer.Key("channel").Integer(block.channel).Key("steps").BeginArray();
      for (const Step& step : block.steps) WriteStep(step, writer);
      writer.EndArray().EndObject();
    }
    writer.EndArray().EndObject();
  }
  writer.EndArray().EndObject();
  return writer.Text() + "\n";
}

Result<VerifiedProgram> ParseAndVerify(std::string_view text, std::string_view name,
                                       const VerifyOptions& options) {
  const auto verify = [&](Result<Program> program) -> Result<VerifiedProgram> {
    if (!program) return Propagate(program);
    Verdict verdict = Verify(*program, options);
    return VerifiedProgram{std::move(*program), std::move(verdict)};
  };
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '<') {
    return verify(ParseMscclXml(text, name));
  }
  auto json = io::ParseJson(text, name);
  if (!json) return Propagate(json);
  if (!IsMscclppPlan(*json)) return verify(Reader(name).Read(*json));
  auto plan = ParseMscclppJson(*json, name);
  if (!plan) return Propagate(plan);
  PlanRunResult run = RunPlan(*plan, options.budget);
  if (run.violation) {
    VerifiedProgram refused;
    refused.program.name = plan->name;
    refused.program.collective = plan->collective;
    refused.verdict.violation = std::move(run.violation);
    return refused;
  }
  auto program = MakePlanProgram(*plan, run);
  if (!program) {
    return Fail(program.error().code, fmt::format("{}: {}", name, program.error().message));
  }
  return verify(std::move(program));
}

Result<VerifiedProgram> ReadAndVerify(const std::string& path, const VerifyOptions& options) {
  auto text = io::ReadFile(path);
  if (!text) return Propagate(text);
  return ParseAndVerify(*text, path, options);
}

}  // namespace espalier::program
