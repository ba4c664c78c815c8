# cmake -DOUTPUT=app.js -DFILES=a.js;b.js -P bundle.cmake
# Writes one JavaScript module for these, so that a browser fetches one file. Each file comes after
# those that it imports. Imports and exports are one line each and rename nothing; a name that two
# files declare at their top level is an error when the browser loads the module.
set(bundle "")
foreach(file IN LISTS FILES)
  file(READ ${file} text)
  get_filename_component(name ${file} NAME)
  string(REGEX REPLACE "import [^\n]* from \"[^\"\n]*\";\n" "" text "${text}")
  string(REGEX REPLACE "\nexport " "\n" text "\n${text}")
  string(APPEND bundle "// ---- ${name}${text}\n")
endforeach()
file(WRITE ${OUTPUT} "${bundle}")
