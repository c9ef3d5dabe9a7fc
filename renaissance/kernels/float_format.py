"""What the elementary functions must know about float32 and float64: layout of the bits, limits, and polynomial coefficients.

The coefficients minimise the largest relative error of the function they stand for (Remez exchange in 60-digit arithmetic; the
first ones are rounded to the format before the rest is fitted). Lowest power first; comments give the polynomials' own errors.
"""

from __future__ import annotations

from dataclasses import dataclass

from renaissance.kernels.loops import Builder, Value


@dataclass(frozen=True)
class FloatFormat:
    """One binary floating-point format.

    kind, word      its number kind and the integer kind of equal width
    mantissa, bias  stored bits of the significand; what is added to a power of two in the exponent field
    root_half       the bits of sqrt(1/2)
    ln2, half_pi    ln 2 and pi/2 as sums of format numbers, the largest first, each rounded towards zero
    half_pi_factors two numbers whose exact product is pi/2 to twice the precision
    *_low, *_high   arguments beyond which the function has reached its limit
    direct_limit    the angle up to which `half_pi` reduces it to working accuracy; a power of two
    exp ... atan    coefficients; see the function of that name in `vector_math`
    """

    kind: str
    word: str
    mantissa: int
    bias: int
    root_half: int
    log2e: float
    ln2: tuple[float, float]
    half_pi: tuple[float, float, float]
    two_over_pi: float
    half_pi_factors: tuple[float, float]
    exp_low: float
    exp_high: float
    expm1_low: float
    tanh_high: float
    erf_high: float
    erf_break: float
    direct_limit: float
    exp: tuple[float, ...]
    expm1: tuple[float, ...]
    log: tuple[float, ...]
    sin: tuple[float, ...]
    cos: tuple[float, ...]
    tanh: tuple[float, ...]
    atan: tuple[float, ...]
    erf: tuple[float, ...]
    erf_tail: tuple[float, ...]

    @property
    def width(self) -> int:
        """Bits of a number."""
        return 1 + self.mantissa + (self.bias + 1).bit_length()

    @property
    def sign_mask(self) -> int:
        return 1 << (self.width - 1)

    @property
    def mantissa_mask(self) -> int:
        return (1 << self.mantissa) - 1

    @property
    def one(self) -> int:
        """The bits of 1.0."""
        return self.bias << self.mantissa

    @property
    def least_normal(self) -> float:
        return 2.0 ** (1 - self.bias)

    @property
    def integer_offset(self) -> float:
        """Adding it to a small number rounds that to an integer, which then stands in the low bits of the sum."""
        return 1.5 * 2.0**self.mantissa


_F32 = FloatFormat(
    kind="f32", word="i32", mantissa=23, bias=127, root_half=0x3F3504F3,
    log2e=1.4426950408889634,
    ln2=(0.6931471228599548, 5.769998878690785e-08),
    half_pi=(1.570796251296997, 7.549789415861596e-08, 5.390302529957765e-15),
    two_over_pi=0.6366197723675814,
    half_pi_factors=(0.93318945, 1.6832556),
    exp_low=-104.0, exp_high=89.0, expm1_low=-20.0, tanh_high=10.0, erf_high=3.93, erf_break=1.05,
    direct_limit=2.0**16,
    exp=(0.49999994, 0.16666517, 0.041668132, 0.008369048, 0.0013827592),  # 2**-28.0
    expm1=(0.49999997, 0.16666539, 0.041667756, 0.008367153, 0.0013835827),  # 2**-26.1
    log=(0.3333333, -0.25000823, 0.2000126, -0.16623342, 0.14201047, -0.1315954, 0.12765943, -0.07641501),  # 2**-27.3
    sin=(-0.16666655, 0.008332189, -0.00019518276),  # 2**-27.9
    cos=(0.041666646, -0.0013887327, 2.4435323e-05),  # 2**-32.7
    tanh=(-0.333333, 0.13331208, -0.053561155, 0.018741354),  # 2**-29.1
    atan=(-0.33333313, 0.19998907, -0.14267567, 0.10967857, -0.084455654, 0.058630683, -0.03181091, 0.011238146,
          -0.0018629358),  # 2**-27.2
    erf=(0.12837917, -0.3761262, 0.112833895, -0.02684248, 0.0051633725, -0.0007774266, 7.0474605e-05),  # 2**-26.7
    erf_tail=(1.000464, -0.14332326, -0.06484228, -0.007723478, 0.010638398, -0.0016295577, -1.7518938e-05,
              1.3943284e-05),  # 2**-28.0
)
_F64 = FloatFormat(
    kind="f64", word="i64", mantissa=52, bias=1023, root_half=0x3FE6A09E667F3BCD,
    log2e=1.4426950408889634,
    ln2=(0.6931471805599453, 2.3190468138462996e-17),
    half_pi=(1.5707963267948966, 6.123233995736765e-17, 1.0828566739219139e-32),
    two_over_pi=0.6366197723675814,
    half_pi_factors=(0.7998256752985797, 1.963923358935069),
    exp_low=-746.0, exp_high=710.0, expm1_low=-40.0, tanh_high=20.0, erf_high=5.93, erf_break=1.1,
    direct_limit=2.0**30,
    exp=(0.5000000000000011, 0.16666666666666435, 0.04166666666652548, 0.008333333333471504, 0.0013888888945044458,
         0.000198412695720463, 2.4801491459741974e-05, 2.755751493627085e-06, 2.7630888368585077e-07,
         2.5026549712750698e-08),  # 2**-57.9
    expm1=(0.5, 0.16666666666666677, 0.041666666666666685, 0.00833333333332179, 0.001388888888889139, 0.0001984126988533965,
           2.4801587284293423e-05, 2.755724517086022e-06, 2.7557324898197546e-07, 2.5108675922404578e-08,
           2.0895307379828948e-09),  # 2**-61.2
    log=(0.3333333333333314, -0.24999999999987968, 0.20000000000066995, -0.16666666669827898, 0.14285714280044812,
         -0.12499999691242768, 0.11111111150308456, -0.10000015216927942, 0.0909092384215438, -0.08332913204235746,
         0.07691531404964172, -0.07149445943779785, 0.06684574173038087, -0.06196605536491242, 0.05668433169876299,
         -0.05678233244291157, 0.06503615387664162, -0.05980546291984352, 0.026139554372403697),  # 2**-56.6
    sin=(-0.1666666666666663, 0.00833333333332184, -0.0001984126982938117, 2.755731355761486e-06, -2.5050739204529555e-08,
         1.5895810965756258e-10),  # 2**-57.9
    cos=(0.041666666666666595, -0.0013888888888873333, 2.4801587288992887e-05, -2.7557314213561764e-07,
         2.08757048345026e-09, -1.1358716352103616e-11),  # 2**-63.9
    tanh=(-0.3333333333333321, 0.13333333333302094, -0.05396825394115018, 0.021869487381927104, -0.008863207665596548,
          0.003591720345369875, -0.0014521367768936982, 0.0005695668045200164, -0.00017460390420082054),  # 2**-59.1
    atan=(-0.3333333333333307, 0.19999999999951748, -0.14285714282582662, 0.11111111007020087, -0.09090906999540213,
          0.07692279766278592, -0.06666403231709764, 0.05880521703070012, -0.05253486553780791, 0.047221987003039645,
          -0.04218819003085311, 0.03663388520520139, -0.02989009114243791, 0.021966709184283843, -0.013882350624969337,
          0.007182839373748604, -0.0028774973568340624, 0.0008285670504852296, -0.00015153567630393303,
          1.3159658348558658e-05),  # 2**-57.1
    erf=(0.12837916709551256, -0.3761263890318339, 0.11283791670940665, -0.026866170642874925, 0.0052239776071340924,
         -0.0008548326139961332, 0.00012055305674906844, -1.4925086870267915e-05, 1.6454195811074192e-06,
         -1.6289909982475182e-07, 1.4318285437565995e-08, -1.0258705803679595e-09, 4.3591565753877644e-11),  # 2**-55.7
    erf_tail=(0.9999998562350395, -0.1410460581887589, -0.06963608311459178, -0.0020745504434984104, 0.006565623973755595,
              0.00021204517332428828, -0.0005303797287560018, 9.412927504389572e-05, -1.7002085305400551e-06,
              -4.633684160239428e-06, 2.6825456929189163e-06, -9.236801275400405e-07, 2.0831465926843785e-07,
              -3.227146880103877e-08, 3.492124579431844e-09, -2.5743537208797447e-10, 1.1774351999138133e-11,
              -2.5376133834605384e-13),  # 2**-56.0
)
_LONG = 10  # coefficients
FORMATS = {"f32": _F32, "f64": _F64}


def polynomial(b: Builder, x: Value, coefficients: tuple[float, ...]) -> Value:
    """c0 + c1 x + c2 x**2 + ... by Horner's rule, each step one fma.

    A long one takes steps of x**2 over pairs (c x + c'): half the chain, which a processor's schedulers can overlap with the next
    vector's. The first two terms, which decide the rounding error, are single steps.
    """
    split = len(coefficients) - 1 if len(coefficients) < _LONG else 2 + len(coefficients) % 2
    tail = coefficients[split:]
    if len(tail) == 1:
        result = b.const(x.type, tail[0])
    else:
        square = b.mul(x, x)
        pairs = [b.fma(x, high, low) for low, high in zip(tail[::2], tail[1::2])]
        result = pairs[-1]
        for pair in reversed(pairs[:-1]):
            result = b.fma(result, square, pair)
    for c in reversed(coefficients[:split]):
        result = b.fma(result, x, c)
    return result


def at_most(b: Builder, x: Value, high: float) -> Value:
    """The smaller of x and a constant; NaN stays NaN."""
    return b.select(b.cmp("gt", x, high), b.const(x.type, high), x)


def at_least(b: Builder, x: Value, low: float) -> Value:
    """The larger of x and a constant; NaN stays NaN."""
    return b.select(b.cmp("lt", x, low), b.const(x.type, low), x)


def bits(b: Builder, x: Value) -> Value:
    """The bits of a float as an integer of equal width."""
    return b.bitcast(x, x.type.with_kind(FORMATS[x.type.kind].word))


def with_sign(b: Builder, magnitude: Value, x: Value) -> Value:
    """A number that is not negative, given the sign of x."""
    sign = b.and_(bits(b, x), FORMATS[x.type.kind].sign_mask)
    return b.bitcast(b.or_(bits(b, magnitude), sign), x.type)
