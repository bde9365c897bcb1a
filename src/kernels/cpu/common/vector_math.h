// exp and the logistic function on vectors. Included by an instruction set's folder only.
#pragma once

namespace roundel {

template <class Isa>
struct VectorMath {
  using F = typename Isa::F;
  using I = typename Isa::I;

  // Relative error below 2^-22 where the result is a normal number; 0 below -87; 2.4e38 above 88.37; NaN stays.
  // exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln(2)/2; ln 2 in two parts so that x - n ln 2 is exact to the last
  // bit; the polynomial for exp(r) is that of Cephes expf (Moshier 1989).
  static inline __attribute__((always_inline)) F exp(F x) {
    const F low = Isa::set1(-87.0f);
    const F clamped = Isa::max(low, Isa::min(Isa::set1(88.3762626f), x));
    const I n = Isa::round_even(Isa::mul(clamped, Isa::set1(1.44269504088896341f)));
    const F nf = Isa::to_float(n);
    const F r = Isa::fnma(nf, Isa::set1(-2.12194440e-4f), Isa::fnma(nf, Isa::set1(0.693359375f), clamped));
    F p = Isa::set1(1.9875691500e-4f);
    p = Isa::fma(p, r, Isa::set1(1.3981999507e-3f));
    p = Isa::fma(p, r, Isa::set1(8.3334519073e-3f));
    p = Isa::fma(p, r, Isa::set1(4.1665795894e-2f));
    p = Isa::fma(p, r, Isa::set1(1.6666665459e-1f));
    p = Isa::fma(p, r, Isa::set1(5.0000001201e-1f));
    p = Isa::add(Isa::fma(p, Isa::mul(r, r), r), Isa::set1(1.0f));
    const F power = Isa::floats(Isa::template sll<23>(Isa::iadd(n, Isa::iset1(127))));
    return Isa::select_less(x, low, Isa::zero(), Isa::mul(p, power));
  }

  // z / (1 + exp(-t))
  static inline __attribute__((always_inline)) F times_logistic(F z, F t) {
    return Isa::div(z, Isa::add(Isa::set1(1.0f), exp(Isa::sub(Isa::zero(), t))));
  }
};

}  // namespace roundel
