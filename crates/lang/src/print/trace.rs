//! Lines of `nft monitor trace`.
