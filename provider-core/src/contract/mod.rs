//! The contract.
/// The contract as data.
#[derive(Debug)]
pub struct Contract {
    /// Its name.
    pub name: &'static str,
    /// What only the provider may write to.
    pub reserved_path: &'static str,
}
/// Version 1.
pub const SANDBOX_V1: Contract = Contract {
    name: "sandbox-contract/v1",
    reserved_path: "/opt/provider",
};
