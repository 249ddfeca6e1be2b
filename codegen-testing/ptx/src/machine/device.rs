//! Things that all threads of a launch share, and generic addresses.

use super::Traffic;
use super::grid::Grid;
use crate::code::Target;
use crate::error::{Area, Fault};
use crate::memory::Memory;
use crate::module::Module;
use crate::text::Space;

/// Generic addresses of shared memory, from its address 0 on.
const SHARED_WINDOW: u64 = 0x0000_6000_0000_0000;

/// Generic addresses of local memory, from its address 0 on.
const LOCAL_WINDOW: u64 = 0x0000_6100_0000_0000;

/// Bytes of a window.
const WINDOW: u64 = 1 << 32;

/// First address of local memory, so that null is none.
pub const LOCAL_START: u64 = 0x100;

pub struct Device<'m> {
    pub module: &'m Module,
    pub memory: &'m mut Memory,
    /// For each access of the module the allocation that it found last.
    pub hints: Vec<u32>,
    /// Order between blocks, where they run together and are checked.
    pub grid: Option<Grid>,
    /// False where only bounds are checked.
    pub checks: bool,
    pub executed: u64,
    pub traffic: Traffic,
    /// Values given to handles of conditional nodes, in order.
    pub conditionals: Vec<(u64, u32)>,
}

impl Device<'_> {
    /// Resolves the address of an access and checks its alignment.
    #[inline]
    pub fn locate(&self, target: &Target, registers: &[u64]) -> Result<(Area, u64), Fault> {
        let address = registers[target.base as usize].wrapping_add_signed(target.offset.into());
        let (area, address) = match target.space {
            Space::Global | Space::Const => (Area::Global, address),
            Space::Shared => (Area::Shared, address),
            Space::Local => (Area::Local, address),
            Space::Generic | Space::Param => generic(address),
        };
        let bytes = target.size();
        if address & (bytes as u64 - 1) != 0 {
            return Err(Fault::Misaligned { area, address, bytes });
        }
        Ok((area, address))
    }
}

/// The space of a generic address, and the address there.
fn generic(address: u64) -> (Area, u64) {
    match address {
        a if a.wrapping_sub(SHARED_WINDOW) < WINDOW => (Area::Shared, a - SHARED_WINDOW),
        a if a.wrapping_sub(LOCAL_WINDOW) < WINDOW => (Area::Local, a - LOCAL_WINDOW),
        a => (Area::Global, a),
    }
}

/// An address of a space as a generic one, or a generic one as an address of that space.
pub fn convert(address: u64, space: Space, to_generic: bool) -> Result<u64, Fault> {
    let (area, window) = match space {
        Space::Shared => (Area::Shared, SHARED_WINDOW),
        Space::Local => (Area::Local, LOCAL_WINDOW),
        _ => (Area::Global, 0),
    };
    if to_generic {
        return Ok(address.wrapping_add(window));
    }
    match generic(address) {
        (found, inside) if found == area => Ok(inside),
        _ => Err(Fault::OtherSpace { area, address }),
    }
}

/// True for a generic address of a space.
pub fn is_space(address: u64, space: Space) -> bool {
    convert(address, space, false).is_ok()
}
