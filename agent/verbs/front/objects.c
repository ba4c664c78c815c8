#include "agent/verbs/front/objects.h"

struct tables {
  const ElfW(Sym) * symbols;
  const char* strings;
  const uint32_t* gnu_hash;
  const ElfW(Half) * versions;
  const ElfW(Verdef) * definitions;
  const char* soname; /* NULL: none */
};

/* glibc has relocated the addresses in a dynamic section, musl and the kernel's object have not. */
static uintptr_t address_in(const struct front_object* object, ElfW(Addr) value) {
  return value < object->base ? object->base + value : value;
}

static struct tables tables_of(const struct front_object* object) {
  struct tables tables = {0};
  const ElfW(Dyn) * at;
  uintptr_t soname = UINTPTR_MAX;
  if (object->dynamic == NULL) return tables;
  for (at = object->dynamic; at->d_tag != DT_NULL; ++at) {
    const uintptr_t address = address_in(object, at->d_un.d_ptr);
    if (at->d_tag == DT_SYMTAB) tables.symbols = (const ElfW(Sym)*)address;
    if (at->d_tag == DT_STRTAB) tables.strings = (const char*)address;
    if (at->d_tag == DT_GNU_HASH) tables.gnu_hash = (const uint32_t*)address;
    if (at->d_tag == DT_VERSYM) tables.versions = (const ElfW(Half)*)address;
    if (at->d_tag == DT_VERDEF) tables.definitions = (const ElfW(Verdef)*)address;
    if (at->d_tag == DT_SONAME) soname = at->d_un.d_val;
  }
  if (tables.strings != NULL && soname != UINTPTR_MAX) tables.soname = tables.strings + soname;
  return tables;
}

static int has_version(const struct tables* tables, uint32_t symbol, const char* version) {
  const ElfW(Verdef)* at = tables->definitions;
  if (version == NULL || tables->versions == NULL || at == NULL) return 1;
  while (at->vd_ndx != (tables->versions[symbol] & 0x7fff)) {
    if (at->vd_next == 0) return 0;
    at = (const ElfW(Verdef)*)((const char*)at + at->vd_next);
  }
  const ElfW(Verdaux)* const named = (const ElfW(Verdaux)*)((const char*)at + at->vd_aux);
  return front_is_same(tables->strings + named->vda_name, version);
}

static int defines_function(const ElfW(Sym) * symbol) {
  const unsigned type = symbol->st_info & 0xf;
  return symbol->st_shndx != SHN_UNDEF && symbol->st_value != 0 &&
         (type == STT_FUNC || type == STT_NOTYPE || type == STT_OBJECT);
}

/* Finds a symbol by the table that the linker makes for the loader (DT_GNU_HASH): a Bloom filter,
 * then buckets of symbols in the order of their hashes, whose last bit ends a chain. */
void* front_find_in(const struct front_object* object, const char* name, const char* version) {
  const struct tables tables = tables_of(object);
  const uint32_t* const table = tables.gnu_hash;
  uint32_t hash = 5381;
  const char* c;
  uint32_t symbol;
  if (table == NULL || tables.symbols == NULL || tables.strings == NULL || table[0] == 0) {
    return NULL;
  }
  for (c = name; *c != '\0'; ++c) hash = hash * 33 + (unsigned char)*c;
  const uint32_t words = table[2]; /* of the filter, each as long as an address */
  const uint32_t* const buckets = table + 4 + words * (sizeof(uintptr_t) / sizeof(uint32_t));
  const uint32_t* const chains = buckets + table[0];
  symbol = buckets[hash % table[0]];
  if (symbol < table[1]) return NULL;
  for (;; ++symbol) {
    const uint32_t other = chains[symbol - table[1]];
    const ElfW(Sym)* const at = &tables.symbols[symbol];
    if ((other | 1) == (hash | 1) && front_is_same(tables.strings + at->st_name, name) &&
        defines_function(at) && has_version(&tables, symbol, version)) {
      return (void*)(object->base + at->st_value);
    }
    if ((other & 1) != 0) return NULL;
  }
}

struct visit {
  int (*visit)(const struct front_object*, void*);
  void* data;
};

static int visit_object(struct dl_phdr_info* info, size_t bytes, void* data) {
  const struct visit* const to = data;
  struct front_object object = {info->dlpi_name, info->dlpi_addr, NULL};
  int i;
  (void)bytes;
  for (i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    object.dynamic = (const ElfW(Dyn)*)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
  }
  if (object.name == NULL) object.name = "";
  return to->visit(&object, to->data);
}

int front_visit_objects(int (*visit)(const struct front_object*, void*), void* data) {
  struct visit to = {visit, data};
  return dl_iterate_phdr == NULL ? 0 : dl_iterate_phdr(visit_object, &to);
}

struct search {
  uintptr_t address;
  struct front_object* found;
};

static int has_address(struct dl_phdr_info* info, size_t bytes, void* data) {
  const struct search* const search = data;
  struct front_object* const found = search->found;
  int has = 0;
  int i;
  (void)bytes;
  found->name = info->dlpi_name == NULL ? "" : info->dlpi_name;
  found->base = info->dlpi_addr;
  found->dynamic = NULL;
  for (i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)* const part = &info->dlpi_phdr[i];
    const uintptr_t start = info->dlpi_addr + part->p_vaddr;
    if (part->p_type == PT_DYNAMIC) found->dynamic = (const ElfW(Dyn)*)start;
    if (part->p_type == PT_LOAD && search->address - start < part->p_memsz) has = 1;
  }
  return has;
}

int front_object_of(const void* address, struct front_object* found) {
  struct search search = {(uintptr_t)address, found};
  return address != NULL && dl_iterate_phdr != NULL && dl_iterate_phdr(has_address, &search) != 0;
}

int front_needs(const struct front_object* user, const struct front_object* object) {
  const struct tables of_user = tables_of(user);
  const struct tables of_object = tables_of(object);
  const char* file = object->name;
  const char* c;
  const ElfW(Dyn) * at;
  if (of_user.strings == NULL) return 0;
  for (c = object->name; *c != '\0'; ++c) {
    if (*c == '/') file = c + 1;
  }
  for (at = user->dynamic; at->d_tag != DT_NULL; ++at) {
    if (at->d_tag != DT_NEEDED) continue;
    const char* const needed = of_user.strings + at->d_un.d_val;
    if (front_is_same(needed, object->name) || front_is_same(needed, file)) return 1;
    if (of_object.soname != NULL && front_is_same(needed, of_object.soname)) return 1;
  }
  return 0;
}

void front_search_paths(const struct front_object* object, const char* (*paths)[2]) {
  const struct tables tables = tables_of(object);
  const ElfW(Dyn) * at;
  (*paths)[0] = (*paths)[1] = NULL;
  if (tables.strings == NULL) return;
  for (at = object->dynamic; at->d_tag != DT_NULL; ++at) {
    if (at->d_tag == DT_RPATH) (*paths)[0] = tables.strings + at->d_un.d_val;
    if (at->d_tag == DT_RUNPATH) (*paths)[1] = tables.strings + at->d_un.d_val;
  }
}

int front_is_front(const struct front_object* object) {
  return front_find_in(object, "espalier_verbs_front", NULL) != NULL;
}
