// library_example MODEL OUT TEXT: quantizes a checkpoint, measures the result against it, and continues a prompt.
#include <roundel/roundel.h>

#include <fstream>
#include <iostream>
#include <sstream>

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: library_example MODEL OUT TEXT\n";
    return 2;
  }
  std::ostringstream text;
  text << std::ifstream(argv[3]).rdbuf();
  try {
    using namespace roundel::api;
    set_log_level(LogLevel::kWarn);
    const QuantizeReport written = quantize(argv[1], argv[2], {.scheme = "W4A16:g32"});
    const Model dense = load(argv[1]), model = load(argv[2]);
    const EvalReport eval = model.evaluate(text.str(), {.window = 128, .limit_windows = 20}, &dense);
    std::cout << "bits per weight " << written.bits_per_weight << "\n"
              << "perplexity " << eval.perplexity << ", dense " << eval.against->baseline_perplexity << "\n"
              << "KL divergence " << eval.against->kl_mean << "\n"
              << model.generate("Once upon a time", {.max_tokens = 16}).text << "\n";
  } catch (const roundel::Error& e) {
    std::cerr << "error: " << e.what() << "\n";
    return 1;
  }
  return 0;
}
