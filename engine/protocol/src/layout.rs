//! The macro that declares a fixed byte layout: little-endian, unaligned, with its size and every offset asserted when
//! the crate is compiled.

macro_rules! layout {
    ($(#[$doc:meta])* $name:ident: $size:literal { $($(#[$fdoc:meta])* $offset:literal $field:ident: $ty:ty),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq,
            zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout, zerocopy::Unaligned,
        )]
        #[repr(C)]
        pub(crate) struct $name { $($(#[$fdoc])* pub(crate) $field: $ty),+ }

        const _: () = {
            assert!(size_of::<$name>() == $size);
            assert!(align_of::<$name>() == 1);
            $(assert!(std::mem::offset_of!($name, $field) == $offset);)+
        };
    };
}

pub(crate) use layout;
