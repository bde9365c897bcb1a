# Installs this build, then builds docs/library_example against it, in another tree, and runs that.
#   cmake -DBUILD=... -DSOURCE=... -DGENERATOR=... -DCOMPILER=... -P install_test.cmake
set(work ${BUILD}/install_test)
file(REMOVE_RECURSE ${work})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${work}/prefix COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${work}/prefix/bin/roundel --version OUTPUT_VARIABLE version COMMAND_ERROR_IS_FATAL ANY)
execute_process(
  COMMAND ${CMAKE_COMMAND} -S ${SOURCE}/docs/library_example -B ${work}/build -G ${GENERATOR}
          -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_PREFIX_PATH=${work}/prefix -DCMAKE_BUILD_TYPE=Release
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${work}/build COMMAND_ERROR_IS_FATAL ANY)
execute_process(
  COMMAND ${work}/build/library_example ${SOURCE}/tests/data/golden/dense/tiny_llama ${work}/quantized
          ${SOURCE}/tests/data/wikitext-2/wiki.test.raw
  OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
message("${version}${text}")
# Groups of 32 with a BF16 scale: 4 + 16/32 bits.
if(NOT text MATCHES "bits per weight 4\\.5\nperplexity [0-9.]+, dense [0-9.]+\nKL divergence 0\\.[0-9]+\n")
  message(FATAL_ERROR "not what the example should print")
endif()
file(REMOVE_RECURSE ${work})
