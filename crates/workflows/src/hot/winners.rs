//! Bitmap of the tickets that made orders. With it an instance refuses all other tickets from memory when a SKU is sold
//! out (B3, C6).
//!
//! The Redis key `winners` holds a power of two of bytes. Every order sets the bit that its ticket selects, so a ticket
//! whose bit is clear has no order. A ticket whose bit is set may have one, and only its order record tells.
//!
//! An activity has one bitmap for all its SKUs, so that a used ticket that is sent with another SKU is still a conflict.
//! Bits are never cleared, not even by a rebuild: an order that is not in the ledger keeps its record, too.

use domain::activity::Sku;
use ulid::Ulid;

/// Size of the smallest bitmap, in bytes.
pub const MIN_BYTES: usize = 1 << 10;

/// Size of the largest bitmap, in bytes. A fresh instance reads the bitmap with its first sold-out reply, and serves
/// 128 requests by default (Akamai, SpinKube).
pub const MAX_BYTES: usize = 1 << 20;

/// Bits for each unit, while the bitmap is not at its largest.
const BITS_PER_UNIT: usize = 32;

/// Returns the size of the bitmap for an activity with these SKUs, in bytes: a power of two.
///
/// Orders of an unlimited SKU set bits, too. The bitmap is read only if another SKU is sold out.
#[must_use]
pub fn bitmap_bytes(skus: &[Sku]) -> usize {
    let (finite, unlimited): (Vec<_>, Vec<_>) = skus.iter().partition(|sku| sku.total >= 0);
    if !finite.is_empty() && !unlimited.is_empty() {
        return MAX_BYTES;
    }
    let units = finite.iter().fold(0_usize, |sum, sku| sum.saturating_add(usize::try_from(sku.total).unwrap_or(0)));
    (units.min(8 * MAX_BYTES) * BITS_PER_UNIT / 8).next_power_of_two().clamp(MIN_BYTES, MAX_BYTES)
}

/// Returns the number whose remainder by the bitmap's length in bits is the position of the ticket's bit: the last four
/// bytes of its ULID, which are random.
#[must_use]
pub fn bit_number(ticket: Ulid) -> u32 {
    let [.., a, b, c, d] = ticket.to_bytes();
    u32::from_be_bytes([a, b, c, d])
}

/// The bitmap as it was read from Redis.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Winners(Vec<u8>);

impl Winners {
    /// Wraps the value of the key `winners`; empty if there is none.
    #[must_use]
    pub fn new(bitmap: Vec<u8>) -> Self {
        Self(bitmap)
    }

    /// Size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// Whether the ticket may have made an order. Without a bitmap every ticket may have.
    #[must_use]
    pub fn may_contain(&self, ticket: Ulid) -> bool {
        self.position(ticket).is_none_or(|(index, mask)| self.0[index] & mask != 0)
    }

    /// Sets the bit of a ticket that has made an order.
    pub fn insert(&mut self, ticket: Ulid) {
        if let Some((index, mask)) = self.position(ticket) {
            self.0[index] |= mask;
        }
    }

    /// The index of a ticket's byte, and the mask of its bit; `None` without a bitmap.
    fn position(&self, ticket: Ulid) -> Option<(usize, u8)> {
        let bit = (bit_number(ticket) as usize).checked_rem(self.0.len() * 8)?;
        // Redis numbers bits from the most significant one of the first byte.
        Some((bit / 8, 0x80 >> (bit % 8)))
    }
}

#[cfg(test)]
mod tests {
    use domain::ids::SkuId;

    use super::*;

    fn sku(total: i64) -> Sku {
        Sku {
            sku: SkuId::parse("a").expect("a SKU"),
            name: String::new(),
            names: Default::default(),
            image: String::new(),
            price: 1,
            currency: "EUR".to_owned(),
            total,
        }
    }

    /// A generator of numbers that look random, with the same ones in each run.
    fn tickets(count: u64) -> impl Iterator<Item = Ulid> {
        (1..=count).map(|n| Ulid::from_parts(n, u128::from(n.wrapping_mul(0x9E37_79B9_7F4A_7C15))))
    }

    /// Sets bits as Redis does.
    fn set_bits(bitmap: &mut [u8], tickets: impl Iterator<Item = Ulid>) {
        for ticket in tickets {
            let bit = bit_number(ticket) as usize % (bitmap.len() * 8);
            bitmap[bit / 8] |= 0x80 >> (bit % 8);
        }
    }

    #[test]
    fn no_winner_is_missed_at_any_size_and_density() {
        for bytes in [MIN_BYTES, 1 << 14, MAX_BYTES] {
            for count in [1, 100, 100_000] {
                let mut bitmap = vec![0; bytes];
                set_bits(&mut bitmap, tickets(count));
                let winners = Winners::new(bitmap.clone());
                assert!(tickets(count).all(|ticket| winners.may_contain(ticket)), "{bytes} bytes, {count} orders");
                // A bitmap grows by repetition.
                let grown = Winners::new(bitmap.repeat(4));
                assert!(tickets(count).all(|ticket| grown.may_contain(ticket)), "{bytes} bytes, {count} orders, grown");
            }
        }
    }

    #[test]
    fn few_others_are_taken_for_winners_in_a_bitmap_that_fits_the_stock() {
        for units in [100, 10_000, 200_000] {
            let mut bitmap = vec![0; bitmap_bytes(&[sku(units)])];
            set_bits(&mut bitmap, tickets(units as u64));
            let winners = Winners::new(bitmap);
            let taken =
                tickets(units as u64 + 10_000).skip(units as usize).filter(|ticket| winners.may_contain(*ticket));
            assert!(taken.count() < 700, "{units} units");
        }
    }

    #[test]
    fn a_ticket_is_inserted_where_redis_sets_its_bit() {
        let mut bitmap = vec![0; MIN_BYTES];
        set_bits(&mut bitmap, tickets(100));
        let mut winners = Winners::new(vec![0; MIN_BYTES]);
        tickets(100).for_each(|ticket| winners.insert(ticket));
        assert_eq!(winners, Winners::new(bitmap));
    }

    #[test]
    fn without_a_bitmap_every_ticket_may_have_won() {
        let mut winners = Winners::default();
        winners.insert(Ulid::from_parts(1, 2));
        assert!(winners.may_contain(Ulid::from_parts(1, 3)));
    }

    #[test]
    fn the_bitmap_has_room_for_the_units_and_a_bound() {
        let bytes = |totals: &[i64]| bitmap_bytes(&totals.iter().copied().map(sku).collect::<Vec<_>>());
        assert_eq!([bytes(&[]), bytes(&[0]), bytes(&[1, 2]), bytes(&[-1])], [MIN_BYTES; 4]);
        assert_eq!([bytes(&[5_000, 3_000]), bytes(&[8_193])], [32 << 10, 64 << 10]);
        assert_eq!([bytes(&[1_000_000]), bytes(&[i64::MAX, i64::MAX]), bytes(&[1, -1])], [MAX_BYTES; 3]);
    }
}
