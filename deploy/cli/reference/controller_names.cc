#include "deploy/cli/reference/controller_names.h"

#include <algorithm>
#include <chrono>

#include "deploy/cli/reference/completion.h"

namespace espalier::cli {
namespace {

constexpr std::size_t kMaxNames = 10'000;

// Where the API has the names of a kind: the member `key` of the items of `array` of GET `target`.
struct NameSource {
  ArgumentKind kind;
  std::string_view target;
  std::string_view array;
  std::string_view key;
};

constexpr NameSource kSources[] = {
    {ArgumentKind::kLink, "/api/v1/links", "links", "id"},
    {ArgumentKind::kNode, "/api/v1/topology", "nodes", "id"},
    {ArgumentKind::kFlow, "/api/v1/flows", "flows", "flow"},
    {ArgumentKind::kJob, "/api/v1/jobs", "jobs", "job"},
    {ArgumentKind::kTreeJob, "/api/v1/forests", "forests", "job"},
    {ArgumentKind::kPolicy, "/api/v1/policies", "policies", "policy"},
    {ArgumentKind::kAgent, "/api/v1/agents", "agents", "name"},
};

}  // namespace

std::vector<std::string> AskNames(const Session& session, ArgumentKind kind,
                                  std::string_view partial, Duration limit) {
  std::vector<std::string> names;
  const auto* const source = std::ranges::find(kSources, kind, &NameSource::kind);
  if (source == std::end(kSources)) return names;
  const auto end = std::chrono::steady_clock::now() + limit;
  std::string after;
  while (names.size() < kMaxNames) {
    const Duration left =
        std::chrono::duration_cast<Duration>(end - std::chrono::steady_clock::now());
    if (left <= Duration::zero()) break;
    const auto response =
        Send(session, "GET", PageTarget(std::string(source->target), after), "", left);
    if (!response || response->status != 200) break;
    const auto page = io::ParseJson(response->body, "answer");
    const io::JsonValue* items = page ? page->Find(source->array) : nullptr;
    // A page of an answer with two arrays may lack the first one.
    if (items == nullptr || items->items.empty()) break;
    for (const io::JsonValue& item : items->items) {
      const io::JsonValue* name = item.Find(source->key);
      if (name == nullptr || !name->text.starts_with(partial)) continue;
      if (IsSafeName(name->text)) names.push_back(name->text);
    }
    const io::JsonValue* next = page->Find("next");
    if (next == nullptr || next->text == after) break;
    after = next->text;
  }
  return names;
}

}  // namespace espalier::cli
