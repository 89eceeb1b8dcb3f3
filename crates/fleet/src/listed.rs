// SPDX-License-Identifier: Apache-2.0

//! The elements of a set as nft lists it, as those of a publication.

use penstock_listing::Listing;
use penstock_listing::element::key;

use crate::elements::{Elements, Sum};

/// How many elements there are, and the sum of what lasts of them.
pub fn sum(listing: &Listing<'_>) -> (u64, Sum) {
    let (mut count, mut sum) = (0, Sum::default());
    for element in listing.lasting() {
        sum.add(&element);
        count += 1;
    }
    (count, sum)
}

/// What lasts of elements, by their keys.
pub fn elements(listing: &Listing<'_>) -> Elements {
    listing.lasting().map(|element| (key(&element).to_owned(), element)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings_are_counted_and_summed() {
        let text = "table inet t {\n\tset s {\n\t\ttype ipv4_addr\n\t\tflags interval,timeout\n\
                    \t\telements = { 198.18.0.1 counter packets 1 bytes 2 timeout 2h expires 59m58s,\n\
                    \t\t\t     198.18.1.0/24 comment \"a, } b\", 198.18.2.1-198.18.2.9 }\n\t}\n}\n";
        let listing = Listing::of(text).expect("a listing");
        let all =
            ["198.18.0.1 timeout 2h", "198.18.1.0/24 comment \"a, } b\"", "198.18.2.1-198.18.2.9"];
        assert_eq!(elements(&listing).into_values().collect::<Vec<_>>(), all);
        assert_eq!(sum(&listing), (3, Sum::of(all)));
        let empty = "table ip t {\n\tset s {\n\t\ttype ipv4_addr\n\t}\n}\n";
        assert_eq!(sum(&Listing::of(empty).expect("a listing")), (0, Sum::default()));
    }
}
