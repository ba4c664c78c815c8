#include "controller/offline/files/job_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <utility>

#include "common/files/file.h"
#include "common/files/json.h"
#include "common/files/json_fields.h"
#include "controller/offline/files/floodns_job.h"
#include "controller/offline/files/phase_reader.h"

namespace espalier::offline {
namespace {

using fabric::Topology;

constexpr std::int64_t kMaxEpochs = 1'000'000;

class Reader {
 public:
  Reader(std::string_view file_name, const Topology& topology)
      : file_(file_name), phases_(file_name, topology) {}

  Result<std::vector<Job>> Read(const io::JsonValue& document) {
    io::JsonFields fields(document, file_);
    const auto& items = fields.RequiredArray("jobs");
    if (auto done = fields.Finish(); !done) return Propagate(done);
    std::vector<Job> jobs;
    for (const io::JsonValue& item : items) {
      auto job = ReadJob(item);
      if (!job) return Propagate(job);
      jobs.push_back(std::move(*job));
    }
    return jobs;
  }

 private:
  Result<Job> ReadJob(const io::JsonValue& item) {
    io::JsonFields fields(item, file_);
    Job job;
    job.id = fields.RequiredString("id");
    job.model = fields.String("model");
    job.start_ns = ReadSeconds(fields, "start_seconds");
    job.epochs = static_cast<int>(fields.Integer("epochs", 1, 1, kMaxEpochs));
    auto phases = phases_.ReadPhases(fields);
    if (!phases) return Propagate(phases);
    job.phases = std::move(*phases);
    return job;
  }

  std::string file_;
  PhaseReader phases_;
};

Result<std::vector<std::string>> ListJobFiles(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return std::vector<std::string>{path};
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    const std::string extension = entry.path().extension().string();
    if (entry.is_regular_file(error) && (extension == ".txt" || extension == ".json")) {
      files.push_back(entry.path().string());
    }
  }
  if (files.empty()) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("{}: no job file (*.txt, *.json) in this folder", path));
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

Result<std::vector<Job>> ParseJobs(std::string_view text, std::string_view file_name,
                                   const Topology& topology) {
  auto document = io::ParseJson(text, file_name);
  if (!document) return Propagate(document);
  return Reader(file_name, topology).Read(*document);
}

Result<std::vector<Job>> ReadJobs(const std::string& path, const Topology& topology) {
  auto files = ListJobFiles(path);
  if (!files) return Propagate(files);
  std::vector<Job> jobs;
  std::set<std::string> ids;
  for (const std::string& file : *files) {
    auto text = io::ReadFile(file);
    if (!text) return Propagate(text);
    std::vector<Job> read;
    if (file.ends_with(".json")) {
      auto parsed = ParseJobs(*text, file, topology);
      if (!parsed) return Propagate(parsed);
      read = std::move(*parsed);
    } else {
      auto parsed = ParseFloodnsJob(*text, file, topology);
      if (!parsed) return Propagate(parsed);
      read.push_back(std::move(*parsed));
    }
    for (Job& job : read) {
      if (!ids.insert(job.id).second) {
        return Fail(ErrorCode::kAlreadyExists,
                    fmt::format("{}:1:1: a second job has the id \"{}\"", file, job.id));
      }
      jobs.push_back(std::move(job));
    }
  }
  return jobs;
}

}  // namespace espalier::offline
