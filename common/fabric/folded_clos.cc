#include "common/fabric/folded_clos.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>

namespace espalier::fabric {
namespace {

constexpr std::uint32_t kNone = FoldedClos::kNone;
// Real fabrics have up to four. A long row of switches would cost time and memory by their square.
constexpr int kMostTiers = 8;

// The links from a switch to one below it.
struct LinkDown {
  NodeId lower;
  std::uint32_t up = kNone;
  std::uint32_t down = kNone;
};

// Builds the blocks tier by tier. A block's labels are those of its first child, each with `width`
// continuations in file order. The labels of the other children are permuted to agree with them,
// down to the leaves; that this is possible is what makes the fabric a folded Clos.
class Recognizer {
 public:
  Recognizer(const Topology& topology, const PathTable& paths)
      : topology_(topology),
        paths_(paths),
        links_down_(topology.nodes().size()),
        block_of_(topology.nodes().size(), kNone),
        label_of_(topology.nodes().size(), 0) {}

  tl::expected<FoldedClos, std::string> Run() {
    bool done = CollectLinks() && AddLeaves();
    for (int tier = 1; done && tier <= highest_tier_; ++tier) done = AddTier(tier);
    if (done) Finish();
    if (!done) return tl::unexpected(reason_);
    return std::move(clos_);
  }

 private:
  using Permutation = std::vector<std::uint32_t>;

  const std::string& NameOf(NodeId node) const { return topology_.node(node).id; }
  bool Refuse(std::string reason) {
    reason_ = std::move(reason);
    return false;
  }

  bool CollectLinks() {
    std::size_t found = 0;
    for (std::size_t i = 0; i < topology_.links().size(); ++i) {
      const LinkId id(static_cast<std::int32_t>(i));
      if (!topology_.IsFabricLink(id)) continue;
      const Link& link = topology_.link(id);
      const int a = paths_.Level(link.a);
      const int b = paths_.Level(link.b);
      if (a == b) {
        return Refuse(
            fmt::format("link {} joins two switches of tier {}", link.id, paths_.Tier(link.a)));
      }
      if (std::abs(a - b) != 1) {
        return Refuse(fmt::format("link {} joins tiers {} and {}", link.id, paths_.Tier(link.a),
                                  paths_.Tier(link.b)));
      }
      ++found;
      const bool a_is_lower = a < b;
      LinkDown entry{a_is_lower ? link.a : link.b};
      const auto forward = static_cast<std::uint32_t>(DirectedLink{id, true}.Index());
      (a_is_lower ? entry.up : entry.down) = forward;
      if (!link.directed) (a_is_lower ? entry.down : entry.up) = forward + 1;
      links_down_[(a_is_lower ? link.b : link.a).Index()].push_back(entry);
      highest_tier_ = std::max({highest_tier_, a, b});
    }
    if (highest_tier_ >= kMostTiers) {
      return Refuse(
          fmt::format("it has {} tiers of switches, more than {}", highest_tier_ + 1, kMostTiers));
    }
    if (found == 0) return Refuse(std::string(kNoSwitchLinks));
    for (std::size_t i = 0; i < links_down_.size(); ++i) {
      if (!MergeDirections(NodeId(static_cast<std::int32_t>(i)), links_down_[i])) return false;
    }
    return true;
  }

  // Joins the entries of two links that go one way each.
  bool MergeDirections(NodeId upper, std::vector<LinkDown>& links) {
    const auto by_node = [](const LinkDown& x, const LinkDown& y) { return x.lower < y.lower; };
    if (!std::ranges::is_sorted(links, by_node)) std::ranges::stable_sort(links, by_node);
    std::size_t kept = 0;
    for (const LinkDown& link : links) {
      if (kept == 0 || links[kept - 1].lower != link.lower) {
        links[kept++] = link;
        continue;
      }
      LinkDown& other = links[kept - 1];
      if ((other.up != kNone && link.up != kNone) || (other.down != kNone && link.down != kNone)) {
        return Refuse(
            fmt::format("several links join {} and {}", NameOf(link.lower), NameOf(upper)));
      }
      if (link.up != kNone) other.up = link.up;
      if (link.down != kNone) other.down = link.down;
    }
    links.resize(kept);
    for (const LinkDown& link : links) {
      if (link.up == kNone || link.down == kNone) {
        return Refuse(fmt::format("{} and {} are linked in one direction only", NameOf(link.lower),
                                  NameOf(upper)));
      }
    }
    return true;
  }

  bool AddLeaves() {
    std::vector<bool> is_used(topology_.nodes().size());
    for (std::size_t i = 0; i < topology_.nodes().size(); ++i) {
      const auto attachment = paths_.FindAttachment(NodeId(static_cast<std::int32_t>(i)));
      if (attachment) is_used[attachment->leaf.Index()] = true;
      if (attachment && paths_.Level(attachment->leaf) != 0) {
        const NodeId nic(static_cast<std::int32_t>(i));
        if (paths_.Tier(attachment->leaf) == 0) {
          return Refuse(fmt::format("{} has one uplink, other NICs have several", NameOf(nic)));
        }
        return Refuse(fmt::format("{} of tier {} has hosts", NameOf(attachment->leaf),
                                  paths_.Tier(attachment->leaf)));
      }
      for (const LinkDown& link : links_down_[i]) is_used[link.lower.Index()] = true;
    }
    clos_.leaf_of.assign(topology_.nodes().size(), -1);
    for (std::size_t i = 0; i < topology_.nodes().size(); ++i) {
      const NodeId node(static_cast<std::int32_t>(i));
      if (!is_used[i] || paths_.Level(node) != 0) continue;
      clos_.leaf_of[i] = static_cast<std::int32_t>(clos_.leaves++);
      block_of_[i] = static_cast<std::uint32_t>(clos_.blocks.size());
      clos_.blocks.push_back({.first_top = static_cast<std::uint32_t>(clos_.tops.size())});
      clos_.tops.push_back(node);
      clos_.rank.push_back(0);
    }
    tier_begin_ = 0;
    return true;
  }

  // Groups the blocks of the tier below by the switches of this one.
  bool AddTier(int tier) {
    const auto first = tier_begin_;
    const auto below = static_cast<std::uint32_t>(clos_.blocks.size()) - first;
    Permutation root(below);
    std::iota(root.begin(), root.end(), 0U);
    const auto find = [&](std::uint32_t block) {
      while (root[block] != block) block = root[block] = root[root[block]];
      return block;
    };
    std::vector<NodeId> tops;
    for (std::size_t i = 0; i < topology_.nodes().size(); ++i) {
      const NodeId node(static_cast<std::int32_t>(i));
      if (paths_.Level(node) != tier || topology_.nodes()[i].kind != NodeKind::kSwitch) continue;
      if (links_down_[i].empty()) {
        if (!HasSwitchLink(node)) continue;
        return Refuse(
            fmt::format("{} of tier {} has no link down", NameOf(node), paths_.Tier(node)));
      }
      tops.push_back(node);
      const std::uint32_t to = block_of_[links_down_[i].front().lower.Index()] - first;
      for (const LinkDown& link : links_down_[i]) {
        const std::uint32_t a = find(block_of_[link.lower.Index()] - first);
        const std::uint32_t b = find(to);
        root[std::max(a, b)] = std::min(a, b);
      }
    }
    std::vector<std::vector<std::uint32_t>> children(below);
    std::vector<std::vector<NodeId>> tops_of(below);
    for (std::uint32_t block = 0; block < below; ++block) {
      children[find(block)].push_back(first + block);
    }
    for (const NodeId top : tops) {
      tops_of[find(block_of_[links_down_[top.Index()].front().lower.Index()] - first)].push_back(
          top);
    }
    tier_begin_ = static_cast<std::uint32_t>(clos_.blocks.size());
    for (std::uint32_t block = 0; block < below; ++block) {
      if (!tops_of[block].empty() && !AddBlock(tier, children[block], tops_of[block])) return false;
    }
    return true;
  }

  bool HasSwitchLink(NodeId node) const {
    return std::ranges::any_of(topology_.Outgoing(node),
                               [&](DirectedLink hop) { return topology_.IsFabricLink(hop.link); });
  }

  bool HaveSameWidths(std::uint32_t a, std::uint32_t b) const {
    const auto& x = clos_.blocks[a];
    const auto& y = clos_.blocks[b];
    if (x.width != y.width || x.labels != y.labels) return false;
    return x.tier == 0 || HaveSameWidths(first_child_[a], first_child_[b]);
  }

  bool AddBlock(int tier, const std::vector<std::uint32_t>& children,
                const std::vector<NodeId>& tops) {
    const auto index = static_cast<std::uint32_t>(clos_.blocks.size());
    const auto count = static_cast<std::uint32_t>(children.size());
    const std::uint32_t planes = clos_.blocks[children.front()].labels;
    for (std::uint32_t place = 0; place < count; ++place) {
      clos_.blocks[children[place]].parent = index;
      clos_.blocks[children[place]].place = place;
      if (!HaveSameWidths(children.front(), children[place])) {
        return Refuse(fmt::format("the blocks of {} and {} have different numbers of switches",
                                  NameOf(LowestTop(children.front())),
                                  NameOf(LowestTop(children[place]))));
      }
    }
    if (tops.size() % planes != 0 || tops.size() > PathTable::kMaxPathsPerPair) {
      return Refuse(fmt::format("{} switches of tier {} above {} do not make {} equal planes",
                                tops.size(), tier, NameOf(LowestTop(children.front())), planes));
    }
    const auto width = static_cast<std::uint32_t>(tops.size() / planes);
    const auto labels = planes * width;
    first_child_.resize(index + 1, kNone);
    first_child_[index] = children.front();
    children_.resize(index + 1);
    children_[index] = children;
    clos_.blocks.push_back({.tier = static_cast<std::uint32_t>(tier),
                            .children = count,
                            .width = width,
                            .labels = labels,
                            .first_link = static_cast<std::uint32_t>(clos_.up.size()),
                            .first_top = static_cast<std::uint32_t>(clos_.tops.size())});
    clos_.tops.resize(clos_.tops.size() + labels);
    clos_.rank.resize(clos_.tops.size());
    clos_.up.resize(clos_.up.size() + std::size_t{labels} * count);
    clos_.down.resize(clos_.up.size());
    std::vector<std::uint32_t> taken(planes);
    std::vector<Permutation> to_label(count, Permutation(planes, kNone));
    for (const NodeId top : tops) {
      if (!AddTop(index, top, taken, to_label)) return false;
    }
    for (std::uint32_t place = 1; place < count; ++place) {
      if (std::ranges::is_sorted(to_label[place])) continue;
      if (!Relabel(children[place], to_label[place])) {
        return Refuse(fmt::format("the planes of {} and {} do not agree",
                                  NameOf(LowestTop(children.front())),
                                  NameOf(LowestTop(children[place]))));
      }
    }
    return true;
  }

  NodeId LowestTop(std::uint32_t block) const { return clos_.tops[clos_.blocks[block].first_top]; }

  bool AddTop(std::uint32_t index, NodeId top, std::vector<std::uint32_t>& taken,
              std::vector<Permutation>& to_label) {
    const FoldedClos::Block& block = clos_.blocks[index];
    const auto& links = links_down_[top.Index()];
    const auto place_of = [&](const LinkDown& link) {
      return clos_.blocks[block_of_[link.lower.Index()]].place;
    };
    const auto first =
        std::ranges::find_if(links, [&](const LinkDown& link) { return place_of(link) == 0; });
    if (links.size() != block.children || first == links.end()) {
      return Refuse(
          fmt::format("{} is linked to {} switches below it, not to one in each of {} blocks",
                      NameOf(top), links.size(), block.children));
    }
    const std::uint32_t plane = label_of_[first->lower.Index()];
    if (taken[plane] == block.width) {
      return Refuse(fmt::format("{} has more links up than its siblings", NameOf(first->lower)));
    }
    const std::uint32_t rank = taken[plane]++;
    const std::uint32_t label = plane * block.width + rank;
    block_of_[top.Index()] = index;
    label_of_[top.Index()] = label;
    clos_.tops[block.first_top + label] = top;
    clos_.rank[block.first_top + label] = rank;
    std::vector<bool> seen(block.children);
    for (const LinkDown& link : links) {
      const std::uint32_t place = place_of(link);
      std::uint32_t& entry = to_label[place][label_of_[link.lower.Index()]];
      if (seen[place] || (entry != kNone && entry != plane)) {
        return Refuse(fmt::format("{} is linked across planes", NameOf(top)));
      }
      seen[place] = true;
      entry = plane;
      const std::size_t at = block.first_link + std::size_t{label} * block.children + place;
      clos_.up[at] = link.up;
      clos_.down[at] = link.down;
    }
    return true;
  }

  // Gives the top with label l of a block the label to_label[l], and the blocks within it the
  // labels that follow. False if no labels of these blocks do.
  bool Relabel(std::uint32_t index, const Permutation& to_label) {
    const FoldedClos::Block& block = clos_.blocks[index];
    if (std::ranges::is_sorted(to_label) && to_label.back() != kNone) return true;
    Permutation of_planes(block.labels / block.width, kNone);
    std::vector<bool> is_taken(block.labels);
    for (std::uint32_t label = 0; label < block.labels; ++label) {
      const std::uint32_t to = to_label[label];
      if (to == kNone || is_taken[to]) return false;
      is_taken[to] = true;
      std::uint32_t& plane = of_planes[label / block.width];
      if (plane != kNone && plane != to / block.width) return false;
      plane = to / block.width;
    }
    const auto permute = [&](auto& values, std::size_t first, std::size_t row) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
      const std::vector old(begin, begin + static_cast<std::ptrdiff_t>(block.labels * row));
      for (std::size_t i = 0; i < old.size(); ++i) {
        begin[static_cast<std::ptrdiff_t>(to_label[i / row] * row + i % row)] = old[i];
      }
    };
    permute(clos_.tops, block.first_top, 1);
    permute(clos_.rank, block.first_top, 1);
    for (std::uint32_t label = 0; label < block.labels; ++label) {
      label_of_[clos_.tops[block.first_top + label].Index()] = label;
    }
    if (block.tier == 0) return true;
    permute(clos_.up, block.first_link, block.children);
    permute(clos_.down, block.first_link, block.children);
    return std::ranges::all_of(children_[index],
                               [&](std::uint32_t child) { return Relabel(child, of_planes); });
  }

  void Finish() {
    clos_.tiers = static_cast<std::uint32_t>(highest_tier_) + 1;
    std::vector<std::vector<std::uint32_t>> counts;  // of blocks by part and tier
    // Parents come after their children.
    for (std::size_t i = clos_.blocks.size(); i-- > 0;) {
      FoldedClos::Block& block = clos_.blocks[i];
      if (block.parent != kNone) {
        block.part = clos_.blocks[block.parent].part;
      } else {
        block.part = clos_.parts++;
        counts.emplace_back(clos_.tiers);
      }
    }
    clos_.label_at.resize(clos_.tops.size());
    for (FoldedClos::Block& block : clos_.blocks) {
      block.part = clos_.parts - 1 - block.part;  // in file order of their leaves, if equally high
      block.number = counts[block.part][block.tier]++;
      for (std::uint32_t label = 0; label < block.labels; ++label) {
        const std::uint32_t rank = clos_.rank[block.first_top + label];
        const std::uint32_t plane = label / block.width * block.width;
        clos_.label_at[block.first_top + plane + rank] = label - plane;
        clos_.in_file_order = clos_.in_file_order && rank == label - plane;
      }
    }
    clos_.part_begin.assign(clos_.parts + 2, 0);
    for (const FoldedClos::Block& block : clos_.blocks) ++clos_.part_begin[block.part + 2];
    std::partial_sum(clos_.part_begin.begin(), clos_.part_begin.end(), clos_.part_begin.begin());
    clos_.part_blocks.resize(clos_.blocks.size());
    for (std::uint32_t i = 0; i < clos_.blocks.size(); ++i) {
      clos_.part_blocks[clos_.part_begin[clos_.blocks[i].part + 1]++] = i;
    }
    clos_.part_begin.pop_back();
    clos_.ancestors.assign(std::size_t{clos_.leaves} * clos_.tiers, kNone);
    for (std::uint32_t leaf = 0; leaf < clos_.leaves; ++leaf) {
      for (std::uint32_t block = leaf; block != kNone; block = clos_.blocks[block].parent) {
        clos_.ancestors[std::size_t{leaf} * clos_.tiers + clos_.blocks[block].tier] = block;
      }
    }
  }

  const Topology& topology_;
  const PathTable& paths_;
  std::vector<std::vector<LinkDown>> links_down_;     // by the upper switch
  std::vector<std::uint32_t> block_of_;               // by switch: the block that it is a top of
  std::vector<std::uint32_t> label_of_;               // by switch: its label there
  std::vector<std::vector<std::uint32_t>> children_;  // by block
  std::vector<std::uint32_t> first_child_;            // by block
  std::uint32_t tier_begin_ = 0;                      // the first block of the latest tier
  int highest_tier_ = 0;
  FoldedClos clos_;
  std::string reason_;
};

}  // namespace

std::uint32_t FoldedClos::CommonBlock(std::uint32_t a, std::uint32_t b) const {
  for (std::uint32_t tier = 0; tier < tiers; ++tier) {
    const std::uint32_t block = Ancestor(a, tier);
    if (block == Ancestor(b, tier)) return block;
  }
  return kNone;
}

std::int32_t FoldedClos::PathOf(std::uint32_t source, std::uint32_t common,
                                std::uint32_t label) const {
  if (in_file_order) return static_cast<std::int32_t>(label);
  std::uint32_t path = 0;
  for (std::uint32_t tier = 1; tier <= blocks[common].tier; ++tier) {
    const Block& block = blocks[Ancestor(source, tier)];
    const std::uint32_t here = label / (blocks[common].labels / block.labels);
    path = path * block.width + rank[block.first_top + here];
  }
  return static_cast<std::int32_t>(path);
}

std::uint32_t FoldedClos::LabelOf(std::uint32_t source, std::uint32_t common,
                                  std::int32_t path) const {
  if (in_file_order) return static_cast<std::uint32_t>(path);
  std::uint32_t label = 0;
  for (std::uint32_t tier = 1; tier <= blocks[common].tier; ++tier) {
    const Block& block = blocks[Ancestor(source, tier)];
    const std::uint32_t digits =
        static_cast<std::uint32_t>(path) / (blocks[common].labels / block.labels);
    const std::uint32_t first = label * block.width;
    label = first + label_at[block.first_top + first + digits % block.width];
  }
  return label;
}

void FoldedClos::AppendLinks(std::uint32_t source, std::uint32_t destination, std::uint32_t common,
                             std::uint32_t label, std::vector<std::uint32_t>& links) const {
  const Block& top = blocks[common];
  const std::size_t first = links.size();
  links.resize(first + 2 * std::size_t{top.tier});
  for (std::uint32_t tier = 1; tier <= top.tier; ++tier) {
    const std::uint32_t here = label / (top.labels / blocks[Ancestor(source, tier)].labels);
    links[first + tier - 1] = UpLink(blocks[Ancestor(source, tier - 1)], here);
    links[first + 2 * top.tier - tier] = DownLink(blocks[Ancestor(destination, tier - 1)], here);
  }
}

tl::expected<FoldedClos, std::string> RecognizeFoldedClos(const Topology& topology,
                                                          const PathTable& paths) {
  return Recognizer(topology, paths).Run();
}

}  // namespace espalier::fabric
