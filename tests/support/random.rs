//! Random numbers that are the same on every machine, for simulated worlds. Leaves out distributions that one simulation alone needs.

/// SplitMix64 (Steele, Lea, Flood: OOPSLA 2014); the state is the seed.
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    pub fn next_word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Evenly from `0..below`.
    pub fn below(&mut self, below: u64) -> u64 {
        self.next_word() % below.max(1)
    }

    /// `mean` plus or minus up to `spread`.
    pub fn around(&mut self, mean: u64, spread: u64) -> u64 {
        mean - spread + self.below(2 * spread + 1)
    }

    /// Evenly from `0.0..1.0`.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are what a float holds")]
    pub fn unit(&mut self) -> f64 {
        (self.next_word() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
